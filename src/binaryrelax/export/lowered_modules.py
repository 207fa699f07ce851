"""How the modules of torch, and packed layers, become operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from binaryrelax.export import lowered_functions as functions
from binaryrelax.export.builder import Builder, CannotLower, Held
from binaryrelax.export.program import LayerWeight
from binaryrelax.packed.layers import PackedConv2d, PackedConv2dSame, PackedLinear
from binaryrelax.packed.packed_layer import PackedLayer

MAX_BITS = 8  # of a code that the runtime reads
Lowered = Callable[[Builder, Any, Held], Held]


def lowered_module(builder: Builder, name: str, module: nn.Module, *inputs: Any) -> Any:
    """What a module makes of its input.

    Raises:
        CannotLower: no operation does what it does.
    """
    kind = next((kind for kind in type(module).__mro__ if kind in MODULES), None)
    if kind is None:
        raise CannotLower("the runtime has no operation for it")
    if len(inputs) != 1 or not isinstance(inputs[0], Held):
        raise CannotLower("it is called with more than one tensor of the network")
    if isinstance(module, PackedLayer):
        return MODULES[kind](builder, _Named(name, module), inputs[0])
    return MODULES[kind](builder, module, inputs[0])


class _Named:
    """A packed layer and its name."""

    def __init__(self, name: str, layer: PackedLayer) -> None:
        self.layer: Any = layer
        self.name = name

    def weight(self) -> LayerWeight:
        form = self.layer.format
        if form.bits > MAX_BITS:
            raise CannotLower(f"its codes take {form.bits} bits, and the runtime reads {MAX_BITS}")
        weight = replace(self.layer.packed_weight, format=replace(form, dtype=torch.float32))
        return LayerWeight(self.name, self.layer.KIND, weight)


def _packed_linear(builder: Builder, named: _Named, x: Held) -> Held:
    return functions.linear(builder, x, named.weight(), named.layer.bias)


def _packed_conv2d(builder: Builder, named: _Named, x: Held) -> Held:
    return _convolved(builder, named.layer, x, named.weight())


def _conv2d(builder: Builder, layer: nn.Conv2d, x: Held) -> Held:
    return _convolved(builder, layer, x, layer.weight.detach())


def _convolved(builder: Builder, layer: Any, x: Held, weight: Any) -> Held:
    if layer.padding_mode != "zeros":
        raise CannotLower(f"it pads in mode {layer.padding_mode!r}; the runtime pads with zeros")
    geometry = layer.stride, layer.padding, layer.dilation, layer.groups
    return functions.conv2d(builder, x, weight, layer.bias, *geometry)


def _refused_same(builder: Builder, named: _Named, x: Held) -> Held:
    raise CannotLower("its padding depends on the size of the image")


def _linear(builder: Builder, layer: nn.Linear, x: Held) -> Held:
    return functions.linear(builder, x, layer.weight.detach(), layer.bias)


def _norm(builder: Builder, norm: Any, x: Held) -> Held:
    statistics = norm.running_mean, norm.running_var
    return functions.batch_norm(builder, x, *statistics, norm.weight, norm.bias, eps=norm.eps)


def _softmax(builder: Builder, module: Any, x: Held) -> Held:
    is_log = isinstance(module, nn.LogSoftmax)
    return (functions.log_softmax if is_log else functions.softmax)(builder, x, module.dim)


def _max_pool(builder: Builder, pool: Any, x: Held) -> Held:
    geometry = pool.kernel_size, pool.stride, pool.padding, pool.dilation
    return functions.max_pool2d(builder, x, *geometry, pool.ceil_mode, pool.return_indices)


def _average_pool(builder: Builder, pool: nn.AvgPool2d, x: Held) -> Held:
    geometry = pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode
    more = pool.count_include_pad, pool.divisor_override
    return functions.avg_pool2d(builder, x, *geometry, *more)


def _upsample(builder: Builder, module: nn.Upsample, x: Held) -> Held:
    factors = module.size, module.scale_factor, module.mode, module.align_corners
    return functions.interpolate(builder, x, *factors, module.recompute_scale_factor)


def _nothing(builder: Builder, module: nn.Module, x: Held) -> Held:
    return x


def _activation(kind: str) -> Lowered:
    return lambda builder, module, x: builder.activate(x, kind)


def _reshaped(builder: Builder, module: nn.Module, x: Held) -> Held:
    return builder.reshaped(x)


def _by(function: functions.Rule, *attributes: str) -> Lowered:
    """As a function does that takes these attributes of the module."""
    return lambda builder, module, x: function(
        builder, x, *(getattr(module, name) for name in attributes)
    )


MODULES: dict[type[nn.Module], Lowered] = {
    PackedLinear: _packed_linear,
    PackedConv2d: _packed_conv2d,
    PackedConv2dSame: _refused_same,
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
    nn.SyncBatchNorm: _norm,
    nn.ReLU: _activation("relu"),
    nn.ReLU6: _activation("relu6"),
    nn.SiLU: _activation("silu"),
    nn.Hardswish: _activation("hard_swish"),
    nn.Hardsigmoid: _activation("hard_sigmoid"),
    nn.Sigmoid: _activation("sigmoid"),
    nn.Tanh: _activation("tanh"),
    nn.GELU: _by(functions.gelu, "approximate"),
    nn.LeakyReLU: _by(functions.leaky_relu, "negative_slope"),
    nn.Hardtanh: _by(functions.hardtanh, "min_val", "max_val"),
    nn.Softmax: _softmax,
    nn.LogSoftmax: _softmax,
    nn.Softmax2d: _by(partial(functions.softmax, dim=1)),
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _average_pool,
    nn.AdaptiveAvgPool2d: _by(functions.adaptive_avg_pool2d, "output_size"),
    nn.AdaptiveMaxPool2d: _by(functions.adaptive_max_pool2d, "output_size", "return_indices"),
    nn.ConstantPad2d: lambda b, m, x: functions.pad(b, x, m.padding, value=m.value),
    nn.ZeroPad2d: lambda b, m, x: functions.pad(b, x, m.padding),
    nn.Upsample: _upsample,
    nn.Flatten: _reshaped,
    nn.Unflatten: _reshaped,
    nn.Identity: _nothing,
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d), _nothing),
    **dict.fromkeys((nn.AlphaDropout, nn.FeatureAlphaDropout), _nothing),
}
