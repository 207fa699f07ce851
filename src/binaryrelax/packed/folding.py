"""Batch normalization folded into the scale and bias of the convolution before it.

With f = gamma / sqrt(variance + eps), per channel:
norm(s * (Q*x) + b) = s f * (Q*x) + (b - mean) f + beta. Where f is negative, the codes change sign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from binaryrelax.packed.bits import pack_bits
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.packed_weight import PackedWeight

_NORM_OF: dict[type[nn.Module], type[_BatchNorm]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}


class _Tracer(fx.Tracer):
    """Looks into no packed layer: their forward asks what their input is.

    Attributes:
        read: the tensors that code outside of their layer looks at, by id.
    """

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, PackedLayer) or super().is_leaf_module(m, module_qualified_name)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if isinstance(attr_val, Tensor):
            self.read.add(id(attr_val))
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_read(self, module: nn.Module) -> bool:
        """Whether the network does more with the module's tensors than calling it."""
        tensors = (*module.parameters(recurse=False), *module.buffers(recurse=False))
        return any(id(tensor) in self.read for tensor in tensors)


class FoldedNorm(nn.Identity):
    """Stands where a batch normalization was that a packed layer does now, with its settings."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        for name in ("num_features", "eps", "momentum", "affine", "track_running_stats"):
            setattr(self, name, getattr(norm, name))


def foldable_norms(model: nn.Module, layers: Mapping[str, nn.Module]) -> dict[str, str]:
    """Which batch normalization follows which convolution of ``layers``, and nothing else does.

    A network that also reads a tensor of either by itself, such as a tied autoencoder that takes
    ``conv.weight``, would see another one after folding: these are left out.

    Returns:
        Name of the convolution -> name of the normalization.

    Raises:
        ValueError: ``torch.fx`` cannot trace the model.
    """
    training = [module for module in model.modules() if module.training]
    tracer = _Tracer()
    try:
        graph = tracer.trace(model.eval())  # what it does when it predicts is what counts
    except Exception as error:  # the model's own code runs: anything can come out of it
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"fold_batchnorm: torch.fx cannot trace {type(model).__name__} ({reason}), so what "
            "follows a convolution is not known; pack without it"
        ) from error
    finally:
        for module in training:
            module.training = True
    calls = Counter(id(_module(model, node)) for node in graph.nodes if node.op == "call_module")
    names = {id(module): name for name, module in layers.items()}
    found = {}
    for node in graph.nodes:
        if len(node.users) != 1:
            continue
        (following,) = node.users
        layer, norm = _module(model, node), _module(model, following)
        if layer is None or norm is None or tracer.is_read(layer) or tracer.is_read(norm):
            continue
        called_once = calls[id(layer)] == calls[id(norm)] == 1
        if id(layer) in names and called_once and _fits(layer, norm):
            found[names[id(layer)]] = str(following.target)
    return found


def fold(layer: PackedLayer, norm: nn.Module) -> PackedLayer:
    """The packed layer that does what ``layer`` and then ``norm``, in evaluation mode, do."""
    assert isinstance(norm, _BatchNorm)  # foldable_norms has looked
    assert norm.running_mean is not None and norm.running_var is not None
    ones = torch.ones_like(norm.running_var)
    gamma, beta = (ones, 0 * ones) if norm.weight is None else (norm.weight, norm.bias)
    factor = gamma.double() / (norm.running_var.double() + norm.eps).sqrt()
    before = 0.0 if layer.bias is None else layer.bias.double()
    bias = beta.double() + (before - norm.running_mean.double()) * factor
    weight = _scaled(layer.packed_weight, factor)
    if not bool(bias.isfinite().all() and weight.scale.isfinite().all()):
        raise ValueError("its batch normalization holds NaN or infinite values")
    return type(layer)(layer, weight, bias.float())


def _scaled(weight: PackedWeight, factor: Tensor) -> PackedWeight:
    """The weight with each row times its factor."""
    form, indices = weight.format, weight.indices().flatten(1)
    if bool((factor < 0).any()) and form.codebook != tuple(-c for c in reversed(form.codebook)):
        raise ValueError(
            "its batch normalization changes the sign of weights, and their codebook is not "
            "symmetric: pack without fold_batchnorm"
        )
    mirrored = len(form.codebook) - 1 - indices
    flipped = torch.where((factor < 0).unsqueeze(1), mirrored, indices)
    per_row = weight.scale.double().reshape(-1, form.num_scales // form.num_rows or 1)
    scale = (per_row * factor.abs().unsqueeze(1)).flatten().float()
    finer = form.granularity.refined_to_rows()
    # The weights are no longer the trained ones: float32 holds them best whatever those were in.
    form = replace(form, granularity=finer, dtype=torch.float32)
    return PackedWeight(form, pack_bits(flipped, form.bits), scale)


def _fits(layer: nn.Module, norm: nn.Module) -> bool:
    expected = _NORM_OF.get(type(layer))
    return (
        expected is not None
        and type(norm) in (expected, nn.SyncBatchNorm)
        and "forward" not in vars(norm)  # somebody may have replaced it
        and norm.running_mean is not None
        and not (layer._forward_hooks or norm._forward_pre_hooks)  # they see what lies between
    )


def _module(model: nn.Module, node: fx.Node) -> nn.Module | None:
    return model.get_submodule(str(node.target)) if node.op == "call_module" else None
