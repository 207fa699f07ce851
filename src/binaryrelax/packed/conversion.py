"""From a trained model to a packed one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from binaryrelax.packed.folding import FoldedNorm, fold, foldable_norms
from binaryrelax.packed.layers import packed_type_of
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.packed_weight import PackedWeight, pack_weight
from binaryrelax.packed.replacement import (
    hidden_references,
    replace_everywhere,
    replace_in_containers,
)
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.quantizable_layers import obstacles, overlaps, plain_name, unwrapped
from binaryrelax.quantizers.sharded_weights import is_dtensor


@torch.no_grad()
def pack(
    model: nn.Module, weights: Mapping[Tensor, Quantizer], *, fold_batchnorm: bool = False
) -> nn.Module:
    """Replaces the layers whose weights are in Q by packed ones, in place.

    The weights that they unpack are those of the trained model, bit for bit. All or nothing: when
    a layer cannot be packed, the model stays as it was. Hooks of a layer move to the packed one.
    A weight that layers share is packed once, for all of them: an embedding tied to a Linear layer
    looks its rows up in the codes.

    Args:
        model: on any device. Of a model wrapped by DistributedDataParallel or ``torch.compile``,
            the inner one is packed and returned. A layer that ``torch.compile`` wraps alone loses
            the wrapper: compile after packing.
        weights: what was trained: parameter -> quantizer, as ``select_weights`` gives it.
        fold_batchnorm: also fold each batch normalization that directly follows a packed
            convolution, with no hook between them, into its scale and bias. Predictions stay the
            same up to rounding, the file becomes smaller, and the weights become those of the
            folded network, with one scale per channel. Needs a model that ``torch.fx`` can trace.

    Returns:
        The model, in evaluation mode.

    Raises:
        ValueError: a weight is not in Q (names layer and distance), is not in the model, or
            belongs to a layer that cannot be packed, also if only one of those that share it.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import BinaryRelax, Hard, Ternary, pack, select_weights
        >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> weights = select_weights(model, Ternary(), keep_float=("2",))
        >>> _ = BinaryRelax(torch.optim.SGD(model.parameters()), weights, Hard())  # train with it
        >>> trained = model[0].weight.detach().clone()
        >>> pack(model, weights)
        Sequential(
          (0): PackedLinear(64, 32, codes=3, PerLayer(), mode='exact')
          (1): ReLU()
          (2): Linear(in_features=32, out_features=10, bias=True)
        )
        >>> torch.equal(model[0].weight, trained), model[0].codes.nbytes  # of 8192 bytes in float
        (True, 512)
    """
    model = unwrapped(model)
    layers = _layers_to_pack(model, weights)
    norms = foldable_norms(model, layers) if fold_batchnorm else {}
    packed = _packed_layers(layers, weights)
    for name, norm in norms.items():
        packed[name] = _folded(name, packed[name], model.get_submodule(norm))
    for reference in hidden_references(model, [*layers.values(), *weights]):
        raise ValueError(
            f"pack: {reference}, which would go on using the float weight after packing; "
            "look it up where it is registered instead"
        )
    replaced: dict[nn.Module, nn.Module] = {layers[name]: packed[name] for name in packed}
    replaced |= {norm: FoldedNorm(norm) for norm in map(model.get_submodule, norms.values())}
    for old, new in replaced.items():
        replace_everywhere(model, old, new)
        new.requires_grad_(False)  # there is nothing left to train it with
    replace_in_containers(model, replaced)
    return model.eval()


def _layers_to_pack(model: nn.Module, weights: Mapping[Tensor, Quantizer]) -> dict[str, nn.Module]:
    """The layers that own one of the weights, by name."""
    if packed_type_of(model) is not None:
        raise ValueError(
            f"pack: the model is a {type(model).__name__} itself, which has no place to put a "
            "packed layer into; wrap it: torch.nn.Sequential(layer)"
        )
    for name, reason in obstacles(model, weights).items():
        raise ValueError(
            f"pack: layer {name!r} {reason}: leave it out of `weights`, with keep_float of "
            "select_weights"
        )
    layers = {plain_name(n): m for n, m in model.named_modules() if _owns(m, weights)}
    for name in _overlapping(model, weights):
        raise ValueError(
            f"pack: the weight of layer {name!r} lies in the memory of another parameter, from "
            "which packing would part it: have both layers hold one parameter, or clone it"
        )
    owned = {id(layer._parameters["weight"]) for layer in layers.values()}
    strangers = [tuple(weight.shape) for weight in weights if id(weight) not in owned]
    if strangers or not weights:
        unknown = f"weights of shape {strangers} given that no layer of {type(model).__name__} has"
        raise ValueError(
            f"pack: {unknown if strangers else 'no weight given'}; "
            "give those that select_weights found in this very model"
        )
    return layers


def _overlapping(model: nn.Module, weights: Mapping[Tensor, Quantizer]) -> list[str]:
    """The layers whose weight shares memory with another parameter, without being one with it."""
    parameters: dict[Tensor, str] = {p: plain_name(name) for name, p in model.named_parameters()}
    found = [weight for pair in overlaps(parameters) for weight in pair if weight in weights]
    return [parameters[weight].removesuffix(".weight") for weight in found]


def _owns(module: nn.Module, weights: Mapping[Tensor, Quantizer]) -> bool:
    weight = module._parameters.get("weight")
    return weight is not None and weight in weights


def _packed_layers(
    layers: Mapping[str, nn.Module], weights: Mapping[Tensor, Quantizer]
) -> dict[str, PackedLayer]:
    packed_weights: dict[Tensor, PackedWeight] = {}  # a tied weight is packed once
    packed = {}
    for name, layer in layers.items():
        weight = layer._parameters["weight"]
        assert weight is not None
        if weight not in packed_weights:
            packed_weights[weight] = _pack_weight(name, weight, weights[weight])
        packed_type = packed_type_of(layer)
        assert packed_type is not None  # obstacles has looked
        packed[name] = packed_type(layer, packed_weights[weight], layer._parameters.get("bias"))
    return packed


def _pack_weight(name: str, weight: Tensor, quantizer: Quantizer) -> PackedWeight:
    if is_dtensor(weight):
        raise ValueError(
            f"pack: layer {name!r} is sharded; load its full state dict into a model of one process"
        )
    try:
        return pack_weight(weight, quantizer)
    except ValueError as error:
        raise ValueError(f"pack: layer {name!r}: {error}") from None


def _folded(name: str, layer: PackedLayer, norm: nn.Module) -> PackedLayer:
    try:
        return fold(layer, norm)
    except ValueError as error:
        raise ValueError(f"pack: layer {name!r}: {error}") from None
