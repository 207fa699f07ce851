"""Which weights of a model to quantize, chosen by layer type and name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from binaryrelax.optim.sharding import drop_gathered_copies, sharded_modules
from binaryrelax.quantizers import PerLayer, Quantizer

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)
_WRAPPERS = ("module.", "_orig_mod.")  # DistributedDataParallel and torch.compile


class SelectedWeights(dict[Tensor, Quantizer]):
    """A dict from parameter to quantizer that also knows each parameter's name in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[Tensor, str] = {}
        self.sharded_modules: list[nn.Module] = []  # where fully_shard gathers these weights


def select_weights(
    model: nn.Module, quantizer: Quantizer, keep_float: Iterable[str] = ()
) -> SelectedWeights:
    """The weights of all Linear and Conv layers, each with ``quantizer``, but those kept float.

    Biases, batch normalization, embeddings and the fused projections of ``nn.MultiheadAttention``
    are not selected. A tied weight is selected once, under the name of its Linear or Conv layer (an
    embedding tied to a Linear layer is therefore selected with it), and stays float if any of its
    names, an embedding's too, is kept.

    Args:
        model: may be wrapped by DistributedDataParallel, fully_shard or torch.compile.
        quantizer: the set that each selected weight is to end in.
        keep_float: patterns (as in ``fnmatch``) of layer names to leave alone. One that matches
            a container covers its layers. The paper keeps the last layer: ``keep_float=("fc",)``.

    Raises:
        ValueError: a pattern matches no layer, or a layer cannot be quantized this way.
    """
    if not isinstance(quantizer, Quantizer):
        raise ValueError(f"select_weights(quantizer={quantizer!r}): need a Quantizer like Binary()")
    selected = SelectedWeights()
    selected.sharded_modules = sharded_modules(model)
    drop_gathered_copies(selected.sharded_modules)  # the parameters are the shards, not the copies
    patterns = (keep_float,) if isinstance(keep_float, str) else tuple(keep_float)
    layers = [(name, m) for name, m in _named_modules(model) if isinstance(m, _LAYERS)]
    candidates = {id(layer._parameters.get("weight")) for _, layer in layers}
    owners = [(n, m) for n, m in _named_modules(model) if _owns_any(m, candidates)]
    _refuse_unmatched(patterns, [name for name, _ in owners])
    kept = [module for name, module in owners if any(_matches(name, p) for p in patterns)]
    kept_weights = {p for module in kept for p in module._parameters.values() if p is not None}
    for name, layer in layers:
        if layer in kept or layer._parameters.get("weight") in kept_weights:
            continue
        weight = _fit_weight(name, layer, quantizer)
        if weight not in selected:
            selected[weight] = quantizer
            selected.names[weight] = f"{name}.weight" if name else "weight"
    if not selected:
        raise ValueError(
            "select_weights: no Linear or Conv layer is left to quantize in "
            f"{type(model).__name__} with keep_float={patterns}"
        )
    return selected


def _named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module under every name it has, without the prefixes of wrappers."""
    for name, module in model.named_modules(remove_duplicate=False):
        yield _unwrapped(name), module


def _owns_any(module: nn.Module, candidates: set[int]) -> bool:
    """Whether the module is a layer to choose from, or shares its weight with one."""
    shares = any(id(p) in candidates for p in module._parameters.values() if p is not None)
    return shares or isinstance(module, _LAYERS)


def _unwrapped(name: str) -> str:
    name = f"{name}."
    while name.startswith(_WRAPPERS):
        name = name.partition(".")[2]
    return name.replace("._orig_mod.", ".").removesuffix(".")


def _matches(name: str, pattern: str) -> bool:
    """Whether the pattern matches the layer or a container around it."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[: end + 1]), pattern) for end in range(len(parts)))


def _refuse_unmatched(patterns: tuple[str, ...], names: list[str]) -> None:
    unmatched = [p for p in patterns if not any(_matches(name, p) for name in names)]
    if unmatched:
        raise ValueError(
            f"select_weights: keep_float matched no Linear or Conv layer: {unmatched}; "
            f"layers: {names}"
        )


def _fit_weight(name: str, layer: nn.Module, quantizer: Quantizer) -> nn.Parameter:
    """The layer's weight, if it can be quantized."""
    weight, way_out = layer._parameters.get("weight"), f"add {name!r} to keep_float"
    if weight is None:
        raise ValueError(f"layer {name!r} computes its weight (parametrization): {way_out}")
    if isinstance(weight, UninitializedParameter):
        raise ValueError(f"layer {name!r} has no weight yet: run one batch through the model first")
    if isinstance(layer, _TRANSPOSED) and quantizer.granularity != PerLayer():
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, whose dimension 0 is its input: "
            f"{quantizer!r} needs PerLayer(), or {way_out}"
        )
    return weight
