"""Which weights of a model to quantize, chosen by layer type and name."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from binaryrelax.optim.argument_checks import first_few
from binaryrelax.optim.fully_shard import drop_gathered_copies, sharded_modules
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.quantizable_layers import (
    LAYERS,
    TRANSPOSED,
    obstacles,
    plain_name,
    unwrapped,
)

# Their parameters may have rows and columns, but of entries to look up or multiply one by one.
_TABLES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)


class SelectedWeights(dict[Tensor, Quantizer]):
    """A dict from parameter to quantizer that also knows each parameter's name in the model.

    ``select_weights`` makes them. Joined by ``|`` or ``update``, selections keep their names; that
    of the first one counts.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Binary, Uniform, select_weights
        >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> binary = select_weights(model, Binary(), keep_float=("2",))
        >>> finer = select_weights(model, Uniform(bits=4), keep_float=("0",))
        >>> both = binary | finer
        >>> both
        {'0.weight': Binary(), '2.weight': Uniform(bits=4)}
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[Tensor, str] = {}
        self.sharded_modules: list[nn.Module] = []  # where fully_shard gathers these weights

    def __repr__(self) -> str:
        return repr({self.names.get(weight, "?"): quantizer for weight, quantizer in self.items()})

    def update(self, other: Mapping[Tensor, Quantizer]) -> None:  # type: ignore[override]
        """Take over the quantizers of ``other``, and the names that are not known yet."""
        super().update(other)
        self.names = {**getattr(other, "names", {}), **self.names}
        joined = (*self.sharded_modules, *getattr(other, "sharded_modules", ()))
        self.sharded_modules = list(dict.fromkeys(joined))

    def __or__(self, other: Mapping[Tensor, Quantizer]) -> SelectedWeights:  # type: ignore[override]
        both = SelectedWeights()
        both.update(self)
        both.update(other)
        return both

    def __ior__(self, other: Mapping[Tensor, Quantizer]) -> SelectedWeights:  # type: ignore[override]
        self.update(other)
        return self


def select_weights(
    model: nn.Module,
    quantizer: Quantizer,
    keep_float: Iterable[str] = (),
    *,
    also: tuple[type[nn.Module], ...] = (),
) -> SelectedWeights:
    """The weights of all Linear and Conv layers, each with ``quantizer``, but those kept float.

    Biases, normalizations and embeddings are not selected, nor are matrices of other layers: those
    of ``nn.LSTM``, ``nn.GRU``, ``nn.Bilinear`` and of layers of your own, and the joint projection
    ``in_proj_weight`` of ``nn.MultiheadAttention``. A warning says how many of these there are
    unless ``keep_float`` names them; to quantize them, split the layer into ``nn.Linear``.

    A tied weight is selected once, under the name of its Linear or Conv layer (an embedding tied to
    a Linear layer is therefore selected with it), and stays float if any of its names, an
    embedding's too, is kept.

    Layers that ``pack`` will refuse, such as a subclass with a forward of its own, are selected
    with a warning that names them: they train, but to ship them packed keep them float.

    Args:
        model: may be wrapped by DistributedDataParallel, fully_shard or torch.compile.
        quantizer: the set that each selected weight is to end in.
        keep_float: patterns (as in ``fnmatch``) of layer names to leave alone. One that matches
            a container covers its layers. The paper keeps the last layer: ``keep_float=("fc",)``.
            One that matches nothing is tried without the parts ``module`` of wrappers.
            Matrices of other layers may be named one by one, as the warning names them.
        also: types of layers that are not torch's whose ``weight`` is to be selected too, with one
            scale per layer; such as GPT-2's ``transformers.pytorch_utils.Conv1D``.

    Raises:
        ValueError: a pattern matches no layer, or a layer cannot be quantized this way.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Ternary, select_weights
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten())
        >>> model.add_module("fc", nn.Linear(72, 10))
        >>> weights = select_weights(model, Ternary(), keep_float=("fc",))
        >>> list(weights.names.values())
        ['0.weight']
    """
    if not isinstance(quantizer, Quantizer):
        raise ValueError(f"select_weights(quantizer={quantizer!r}): need a Quantizer like Binary()")
    model, selected = unwrapped(model), SelectedWeights()
    selected.sharded_modules = sharded_modules(model)
    drop_gathered_copies(selected.sharded_modules)  # the parameters are the shards, not the copies
    patterns = (keep_float,) if isinstance(keep_float, str) else tuple(keep_float)
    if no_names := [pattern for pattern in patterns if not isinstance(pattern, str)]:
        raise ValueError(
            f"select_weights(keep_float={patterns}): {no_names[0]!r} is no name; layers are named "
            'by strings, such as "8"'
        )
    layers = [(name, m) for name, m in _named_modules(model) if isinstance(m, (*LAYERS, *also))]
    candidates = {id(layer._parameters.get("weight")) for _, layer in layers}
    owners = [(n, m) for n, m in _named_modules(model) if _owns_any(m, candidates)]
    others = [(n, p) for n, p in _named_matrices(model) if id(p) not in candidates]
    kept_names = _matched(patterns, [name for name, _ in (*owners, *others)])
    kept = [module for name, module in owners if name in kept_names]
    kept_weights = {p for module in kept for p in module._parameters.values() if p is not None}
    kept_weights |= {matrix for name, matrix in others if name in kept_names}
    for name, layer in layers:
        if layer in kept or layer._parameters.get("weight") in kept_weights:
            continue
        weight = _fit_weight(name, layer, quantizer, (*TRANSPOSED, *also))
        if weight not in selected:
            selected[weight] = quantizer
            selected.names[weight] = f"{name}.weight" if name else "weight"
    if not selected:
        raise ValueError(
            "select_weights: no Linear or Conv layer is left to quantize in "
            f"{type(model).__name__} with keep_float={patterns}"
        )
    _warn_of_others([(n, matrix) for n, matrix in others if matrix not in kept_weights], selected)
    _warn_of_unpackable(obstacles(model, selected))
    return selected


def _named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module under every name it has, as if no part of the model were compiled."""
    for name, module in model.named_modules(remove_duplicate=False):
        yield plain_name(name), module


def _owns_any(module: nn.Module, candidates: set[int]) -> bool:
    """Whether the module is a layer to choose from, or shares its weight with one."""
    shares = any(id(p) in candidates for p in module._parameters.values() if p is not None)
    return shares or isinstance(module, LAYERS)


def _named_matrices(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Every parameter with rows and columns, but those of ``_TABLES``, under every name it has."""
    tables = [module for module in model.modules() if isinstance(module, _TABLES)]
    entries = {id(p) for module in tables for p in module.parameters()}
    for name, module in _named_modules(model):
        for part, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in entries and _is_matrix(parameter):
                yield f"{name}.{part}" if name else part, parameter


def _is_matrix(parameter: nn.Parameter) -> bool:
    """Whether it has more than one dimension, not counting those of size 1."""
    is_lazy = isinstance(parameter, UninitializedParameter)
    return not is_lazy and sum(size > 1 for size in parameter.shape) > 1


def _warn_of_others(others: list[tuple[str, nn.Parameter]], selected: SelectedWeights) -> None:
    """Warn whoever selects of matrices that stay float without having been named."""
    names: dict[nn.Parameter, str] = {}
    for name, matrix in others:
        names.setdefault(matrix, name)
    if names:
        count = sum(matrix.numel() for matrix in names)
        total = count + sum(weight.numel() for weight in selected)
        warnings.warn(
            f"select_weights: {count:,} of {total:,} matrix weights stay float "
            f"({first_few(list(names.values()))}): only those of Linear and Conv layers are "
            "selected; split other layers into nn.Linear, or name their matrices in keep_float",
            stacklevel=3,
        )


def _warn_of_unpackable(found: dict[str, str]) -> None:
    """Warn whoever selects of layers that train and cannot be packed after."""
    if found:
        first, reason = next(iter(found.items()))
        warnings.warn(
            f"select_weights: pack will refuse {first_few([repr(name) for name in found])}; "
            f"{first!r} {reason}; to ship the network packed, name them in keep_float",
            stacklevel=3,
        )


def _matched(patterns: tuple[str, ...], names: list[str]) -> set[str]:
    """The names that match any pattern; a pattern that matches none is an error."""
    found = {pattern: _matched_by(pattern, names) for pattern in patterns}
    unmatched = [pattern for pattern in patterns if not found[pattern]]
    if unmatched:
        raise ValueError(
            f"select_weights: keep_float matched no Linear or Conv layer: {unmatched}; "
            f"layers: {names}"
        )
    return {name for matched in found.values() for name in matched}


def _matched_by(pattern: str, names: list[str]) -> list[str]:
    """As the names are; if none matches so, without the parts that wrappers add."""
    as_they_are = [name for name in names if _matches(name.split("."), pattern)]
    return as_they_are or [
        name
        for name in names
        if _matches([part for part in name.split(".") if part != "module"], pattern)
    ]


def _matches(parts: list[str], pattern: str) -> bool:
    """Whether the pattern matches the layer or a container around it."""
    return any(fnmatchcase(".".join(parts[: end + 1]), pattern) for end in range(len(parts)))


def _fit_weight(
    name: str, layer: nn.Module, quantizer: Quantizer, transposed: tuple[type[nn.Module], ...]
) -> nn.Parameter:
    """The layer's weight, if it can be quantized."""
    weight, way_out = layer._parameters.get("weight"), f"add {name!r} to keep_float"
    if weight is None:
        raise ValueError(f"layer {name!r} computes its weight (parametrization): {way_out}")
    if isinstance(weight, UninitializedParameter):
        raise ValueError(f"layer {name!r} has no weight yet: run one batch through the model first")
    if isinstance(layer, transposed) and not quantizer.granularity.is_one_scale:
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, whose dimension 0 is its input: "
            f"{quantizer!r} needs PerLayer(), or {way_out}"
        )
    return weight
