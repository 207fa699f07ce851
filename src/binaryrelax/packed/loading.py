"""Reading a packed network into a model: whether it fits, then all of it or nothing."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from binaryrelax.packed.file import PackedFile
from binaryrelax.packed.folding import FoldedNorm
from binaryrelax.packed.layers import packed_type_of
from binaryrelax.packed.manifest import digest_of_tensors
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.replacement import (
    hidden_references,
    modules_by_name,
    replace_everywhere,
    replace_in_containers,
)
from binaryrelax.quantizers.quantizable_layers import plain_name, type_name, unwrapped

_LAZY = (UninitializedParameter, UninitializedBuffer)  # of layers that have not run yet


def load_packed(path: str | os.PathLike[str], model: nn.Module) -> nn.Module:
    """Puts a packed network into a model, in place. Hooks of layers move to the packed ones.

    Args:
        path: what ``save_packed`` has written.
        model: the network that was packed, built again; its own weights do not matter, and may be
            on the meta device. Packed layers go to the device of the layers that they replace.
            The file knows names, kinds and shapes of layers, not strides, padding or activations.

    Returns:
        The model, in evaluation mode.

    Raises:
        PackedFileError: the file is not an intact packed network, or its layers have other names,
            kinds or shapes than the model's. The model is as it was.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, load_packed, pack, save_packed, select_weights
        >>> model = nn.Sequential(nn.Linear(64, 10))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> save_packed(pack(model, weights), "net.safetensors")
        >>> loaded = load_packed("net.safetensors", nn.Sequential(nn.Linear(64, 10)))
        >>> torch.equal(loaded[0].weight, model[0].weight)
        True
    """
    file = PackedFile(path)
    model = unwrapped(model)
    place(file, model)
    return model.eval()


def place(file: PackedFile, model: nn.Module) -> None:
    """Puts the layers and tensors of a file into a model.

    Raises:
        PackedFileError: the file is damaged, or of another architecture. The model is as it was.
    """
    if file.manifest.program is not None:
        raise file.error(
            "holds a network for the native runtime, not a model's parts: run it with "
            "binaryrelax_native.load; save_packed writes what load_packed reads"
        )
    tensors, modules = file.other_tensors(), modules_by_name(model)
    replaced: dict[nn.Module, nn.Module] = {}  # what is there -> what takes its place
    for name in file.manifest.layers:
        module = _named(file, modules, name)
        replaced[module] = _packed_layer(file, name, module, tensors)
    for name in file.manifest.folded:
        norm = _norm(file, name, _named(file, modules, name))
        replaced[norm] = FoldedNorm(norm)
    kept = _kept_state(model, replaced)
    _check_fit(file, model, replaced, kept)
    _refuse_stale_parts(file, model, replaced)
    biases = _shared_biases(replaced)
    for old, new in replaced.items():
        replace_everywhere(model, old, new)
    replace_in_containers(model, replaced)
    _load_kept(model, {n: old for n, old in kept.items() if id(old) not in biases}, tensors)
    for name, old in kept.items():
        if id(old) in biases:
            owner, _, part = name.rpartition(".")
            model.get_submodule(owner)._parameters[part] = biases[id(old)]


def _shared_biases(replaced: Mapping[nn.Module, nn.Module]) -> dict[int, nn.Parameter]:
    """What takes the place of each bias, by its id; layers that share one go on to do so."""
    biases: dict[int, nn.Parameter] = {}
    for old, new in replaced.items():
        before = old._parameters.get("bias")
        if before is not None and isinstance(new, PackedLayer) and new.bias is not None:
            new.bias = biases.setdefault(id(before), new.bias)
    return biases


def _load_kept(model: nn.Module, kept: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Writes what is not packed into the model's tensors, or in place of those of the meta device.

    Of these, one that has several names stays one.
    """
    if not any(tensor.is_meta for tensor in kept.values()):
        state = {name: tensors[plain_name(name)] for name in kept}
        model.load_state_dict(state, strict=False)
        return
    made: dict[int, Tensor] = {}
    for name, old in kept.items():
        new = tensors[plain_name(name)].to(old.dtype)
        if isinstance(old, nn.Parameter):
            new = nn.Parameter(new, requires_grad=old.requires_grad)
        made.setdefault(id(old), new)
    state = {name: made[id(old)] for name, old in kept.items()}
    model.load_state_dict(state, strict=False, assign=True)


def _refuse_stale_parts(
    file: PackedFile, model: nn.Module, replaced: Mapping[nn.Module, nn.Module]
) -> None:
    """What a file does not hold and nobody would put into the model."""
    state = {plain_name(name) for name in model.state_dict(keep_vars=True)}
    for name, buffer in model.named_buffers():
        if buffer.is_meta and plain_name(name) not in state:
            raise file.error(
                f"holds no {plain_name(name)!r}, a buffer that the model does not save and that is "
                "on the meta device here; build the model, or the module with this buffer, on a "
                "real device"
            )
    weights = [p for old in replaced for p in old.parameters(recurse=False)]
    for reference in hidden_references(model, [*replaced, *weights]):
        raise file.error(
            f"cannot be put into this model: {reference}, which would keep its old weights; look "
            "it up where it is registered instead"
        )


def _packed_layer(
    file: PackedFile, name: str, module: nn.Module, tensors: Mapping[str, Tensor]
) -> PackedLayer:
    """The packed layer that takes the place of the model's."""
    entry, packed_type = file.manifest.layers[name], packed_type_of(module)
    if packed_type is None or entry.kind != packed_type.KIND:
        raise file.error(f"layer {name!r} is {entry.kind} there, {type_name(module)} here")
    here = _weight_shape(module)
    if here != entry.format.shape:
        raise file.error(f"layer {name!r} has shape {entry.format.shape} there, {here} here")
    weight, bias = file.weight(name), tensors.get(f"{name}.bias")
    if bias is not None and (bias.shape != _bias_shape(module) or not bias.is_floating_point()):
        raise file.error(f"layer {name!r} has a bias of shape {tuple(bias.shape)}, {bias.dtype}")
    may_be_new = bool(file.manifest.folded)  # a folded normalization gives its layer a bias
    has_bias = getattr(module, "bias", None) is not None
    if (bias is not None) != has_bias and not (bias is not None and may_be_new):
        raise file.error(f"is of another architecture: layer {name!r} has a bias in only one")
    return _moved_to(module, packed_type(module, weight, bias))


def _moved_to(module: nn.Module, layer: PackedLayer) -> PackedLayer:
    """The layer on the device and in the dtype of the one whose place it takes."""
    weight: Any = module.weight
    device = next(iter([*module.parameters(), *module.buffers()])).device
    return layer.to(weight.dtype) if device.type == "meta" else layer.to(device, weight.dtype)


def _weight_shape(module: nn.Module) -> tuple[int, ...] | None:
    """None for a lazy layer that has not run yet."""
    if isinstance(module, PackedLayer):
        return module.format.shape
    weight: Any = module.weight
    return None if isinstance(weight, _LAZY) else tuple(weight.shape)


def _bias_shape(module: Any) -> tuple[int | None]:
    """None for an embedding, which has no bias."""
    return (getattr(module, "out_features", getattr(module, "out_channels", None)),)


def _norm(file: PackedFile, name: str, norm: nn.Module) -> nn.Module:
    if not isinstance(norm, (_BatchNorm, FoldedNorm)):
        raise file.error(
            f"is of another architecture: {name!r} is a folded batch normalization there, "
            f"{type(norm).__name__} here"
        )
    return norm


def _kept_state(model: nn.Module, replaced: Mapping[nn.Module, nn.Module]) -> dict[str, Any]:
    """The state of what is not replaced, as the objects that the model holds."""
    names = model.named_modules(remove_duplicate=False)
    prefixes = tuple(f"{name}." for name, module in names if module in replaced)
    state = model.state_dict(keep_vars=True)
    return {name: value for name, value in state.items() if not name.startswith(prefixes)}


def _check_fit(
    file: PackedFile,
    model: nn.Module,
    replaced: Mapping[nn.Module, nn.Module],
    kept: Mapping[str, Any],
) -> None:
    """Whether the file holds just what the model will: names, shapes and what is shared."""
    names_of = _names_by_tensor(model, replaced, kept)
    expected = {name for names in names_of for name in names}
    different = sorted(expected ^ file.names)
    if different:
        where = "not in the file" if different[0] in expected else "not in the model"
        raise file.error(f"is of another architecture: {different[0]!r} is {where}")
    for name, value in kept.items():
        _check_tensor(file, plain_name(name), value)
    for first, *others in names_of:
        for other in others:
            if digest_of_tensors(file.tensor(first)) != digest_of_tensors(file.tensor(other)):
                raise file.error(
                    f"is of another architecture: {first!r} and {other!r} are one tensor here, "
                    "two there"
                )


def _names_by_tensor(
    model: nn.Module, replaced: Mapping[nn.Module, nn.Module], kept: Mapping[str, Any]
) -> list[list[str]]:
    """The names that the state of the model will have, those of one tensor together."""
    names_of: dict[Any, list[str]] = defaultdict(list)
    for name, module in model.named_modules(remove_duplicate=False):
        for part in replaced[module].state_dict() if module in replaced else ():
            bias = module._parameters.get("bias") if part == "bias" else None
            key = (module, part) if bias is None else id(bias)
            names_of[key].append(f"{plain_name(name)}.{part}")
    for name, value in kept.items():
        names_of[id(value)].append(plain_name(name))
    return list(names_of.values())


def _check_tensor(file: PackedFile, name: str, here: Any) -> None:
    there = file.tensor(name)
    if not isinstance(here, Tensor) or isinstance(here, _LAZY):
        raise file.error(f"tensor {name!r} is {type(here).__name__} here, with no shape yet")
    if there.shape != here.shape:
        shapes = f"{tuple(there.shape)} there, {tuple(here.shape)} here"
        raise file.error(f"tensor {name!r} has shape {shapes}")
    if _family(there) != _family(here):
        raise file.error(f"tensor {name!r} is {there.dtype} there, {here.dtype} here")
    if any(
        size > 1 and stride == 0 for size, stride in zip(here.shape, here.stride(), strict=True)
    ):
        raise file.error(
            f"tensor {name!r} cannot be written here: it is expanded, so that its entries share "
            "memory; clone() it in the model"
        )


def _family(tensor: Tensor) -> str:
    """Dtypes of one family convert into each other without a change of meaning."""
    if tensor.is_complex():
        return "complex"
    if tensor.is_floating_point():
        return "float"
    return "bool" if tensor.dtype == torch.bool else "whole"


def _named(file: PackedFile, modules: Mapping[str, nn.Module], name: str) -> nn.Module:
    if name == "" or name not in modules:  # the model has no place to put itself into
        raise file.error(f"is of another architecture: there is no {name!r} here")
    return modules[name]
