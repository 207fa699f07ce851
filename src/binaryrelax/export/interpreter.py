"""What the operations of a program mean: the slow reference of the native runtime, in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from binaryrelax.export.program import Operation, Program

Settings = Mapping[str, Any]
Parameters = Mapping[str, Tensor]


class Interpreter:
    """Runs a program on tensors of float32.

    Args:
        program: whose weights are unpacked once.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        unpacked: dict[int, Tensor] = {}  # layers may be called more than once
        self._parameters = [
            {role: _in_float32(held, unpacked) for role, held in operation.parameters.items()}
            for operation in program.operations
        ]
        self._last_reader = {
            value: number for number, op in program.numbered() for value in op.inputs
        }

    @torch.no_grad()
    def __call__(
        self,
        inputs: Sequence[Tensor],
        watch: Callable[[int, Tensor], None] = lambda number, value: None,
    ) -> list[Tensor]:
        """The outputs for these inputs; ``watch`` is shown every value."""
        values = dict(enumerate(inputs))
        for number, value in values.items():
            watch(number, value)
        steps = zip(self.program.numbered(), self._parameters, strict=True)
        for (number, operation), parameters in steps:
            taken = [values[value] for value in operation.inputs]
            values[number] = apply(operation, taken, parameters)
            watch(number, values[number])
            for source in {*operation.inputs} - {*self.program.outputs}:
                if self._last_reader[source] == number:
                    del values[source]
        return [values[value] for value in self.program.outputs]


def _in_float32(held: Any, unpacked: dict[int, Tensor]) -> Tensor:
    if id(held) not in unpacked:
        tensor = held if isinstance(held, Tensor) else held.unpack()
        unpacked[id(held)] = tensor.float()
    return unpacked[id(held)]


def apply(operation: Operation, inputs: Sequence[Tensor], parameters: Parameters) -> Tensor:
    """What an operation makes of its inputs, its activation applied last."""
    found = _MEANINGS[operation.op](inputs, operation.settings, parameters)
    return activated(found, operation.settings.get("activation"))


def activated(x: Tensor, activation: Settings | None) -> Tensor:
    """The tensor after an activation, as the file says it; None for none."""
    if activation is None:
        return x
    kind = activation["kind"]
    if kind == "clamp":
        return x.clamp(activation["low"], activation["high"])
    if kind == "leaky_relu":
        return F.leaky_relu(x, activation["slope"])
    return _ACTIVATIONS[kind](x)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def _conv(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    top, bottom, left, right = settings["padding"]
    padded = F.pad(inputs[0], (left, right, top, bottom))
    product = F.conv2d(
        padded, parameters["weight"], None, tuple(settings["stride"]), 0,
        tuple(settings["dilation"]), settings["groups"],
    )  # fmt: skip
    return _with_factor_and_bias(product, parameters)


def _linear(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    return _with_factor_and_bias(F.linear(inputs[0], parameters["weight"]), parameters)


def _with_factor_and_bias(product: Tensor, parameters: Parameters) -> Tensor:
    factor, bias = parameters.get("factor"), parameters.get("bias")
    if factor is not None:
        product = product * _per_channel(factor, product)
    return product if bias is None else product + _per_channel(bias, product)


def _affine(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    scale, shift = (_per_channel(parameters[name], inputs[0]) for name in ("scale", "shift"))
    return inputs[0] * scale + shift


def _per_channel(vector: Tensor, x: Tensor) -> Tensor:
    return vector.reshape(-1, *[1] * (x.ndim - 2))


def _pool(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    top, bottom, left, right = settings["padding"]
    if (top, left) != (bottom, right):
        raise ValueError("torch pools with the same padding on both sides only")
    kernel, stride, ceil = settings["kernel"], settings["stride"], settings["ceil"]
    if settings["kind"] == "max":
        dilation = settings["dilation"]
        return F.max_pool2d(inputs[0], kernel, stride, (top, left), dilation, ceil_mode=ceil)
    counted = settings["count_padding"]
    return F.avg_pool2d(inputs[0], kernel, stride, (top, left), ceil, counted)


def _adaptive_pool(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    pool = F.adaptive_max_pool2d if settings["kind"] == "max" else F.adaptive_avg_pool2d
    return pool(inputs[0], tuple(settings["size"]))


def _pad(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    top, bottom, left, right, before, after = settings["padding"]
    pixels = (left, right, top, bottom) if inputs[0].ndim == 4 else ()
    return F.pad(inputs[0], (*pixels, before, after), value=settings["value"])


def _slice(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    places = slice(settings["start"], settings["stop"], settings["step"])
    return inputs[0][(slice(None),) * settings["axis"] + (places,)]


def _upsample(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    kind = settings["kind"]
    return F.interpolate(
        inputs[0],
        size=settings.get("size"),
        scale_factor=settings.get("factor"),
        mode=kind,
        align_corners=settings["align_corners"] if kind == "bilinear" else None,
    )


def _softmax(inputs: Sequence[Tensor], settings: Settings, parameters: Parameters) -> Tensor:
    return F.log_softmax(inputs[0], 1) if settings["log"] else F.softmax(inputs[0], 1)


_MEANINGS: dict[str, Callable[[Sequence[Tensor], Settings, Parameters], Tensor]] = {
    "conv": _conv,
    "linear": _linear,
    "activate": lambda inputs, settings, parameters: inputs[0],
    "add": lambda inputs, settings, parameters: inputs[0] + inputs[1],
    "multiply": lambda inputs, settings, parameters: inputs[0] * inputs[1],
    "affine": _affine,
    "pool": _pool,
    "adaptive_pool": _adaptive_pool,
    "pad": _pad,
    "slice": _slice,
    "flatten": lambda inputs, settings, parameters: inputs[0].flatten(1),
    "concat": lambda inputs, settings, parameters: torch.cat(list(inputs), 1),
    "upsample": _upsample,
    "softmax": _softmax,
}
