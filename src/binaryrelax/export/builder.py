"""Writes a program, operation by operation, while somebody walks through the calls of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from binaryrelax.export.interpreter import apply
from binaryrelax.export.program import LayerWeight, Operation, Parameter, Shape, plain

_OF_EACH_CHANNEL = ("activate", "add", "multiply", "affine", "concat", "slice", "softmax")


class CannotLower(ValueError):
    """A call that no operation does; says why."""


@dataclass(frozen=True)
class Held:
    """A tensor of the model: a value of the program, perhaps looked at in another shape.

    Args:
        value: its number.
        shape: of the model's tensor. It has the value's numbers, in the value's order.
    """

    value: int
    shape: Shape


class Builder:
    """A program that grows.

    Args:
        inputs: their shapes, with the example's batch.

    Attributes:
        name: of the call that is lowered; operations bear it.
        result: the shape of what this call gives, where it gives one tensor.
    """

    def __init__(self, inputs: list[Shape]) -> None:
        self.num_inputs = len(inputs)
        self.shapes = list(inputs)
        self.operations: list[Operation] = []
        self.name = ""
        self.result: Shape = ()
        self._vectors: dict[int, int] = {}  # map -> the vector made of it
        self._pixels: dict[int, int] = {}  # vector -> the map of one pixel made of it

    def emit(
        self,
        op: str,
        inputs: list[int],
        settings: Mapping[str, Any] | None = None,
        held: Mapping[str, Parameter] | None = None,
    ) -> int:
        """Adds an operation and returns the number of the value that it writes."""
        operation = Operation(op, self.name, tuple(inputs), settings or {}, held or {})
        # One row of zeros tells the shape; tensors of the meta device take seconds to be loaded.
        row = [torch.zeros(1, *self.shapes[value][1:]) for value in inputs]
        parameters = {
            role: torch.zeros(1).expand(parameter.shape)
            for role, parameter in operation.parameters.items()
        }
        batch = self.shapes[inputs[0]][0]
        self.shapes.append((batch, *apply(operation, row, parameters).shape[1:]))
        self.operations.append(operation)
        return len(self.shapes) - 1

    def held(self, value: int) -> Held:
        """A value in its own shape."""
        return Held(value, self.shapes[value])

    def reshaped(self, x: Held) -> Held:
        """The tensor in the shape of the call's result."""
        if not self.result or self.result[0] != x.shape[0]:
            raise CannotLower(
                f"it makes {self.result} of {x.shape}; the first dimension, the batch, must stay"
            )
        return Held(x.value, self.result)

    def map(self, x: Held) -> int:
        """The value of a map (N, C, H, W) that the tensor is."""
        if len(x.shape) != 4:
            raise CannotLower(f"it takes maps (N, C, H, W), and gets {x.shape}")
        if self.shapes[x.value] == x.shape:
            return x.value
        if x.shape[2:] == (1, 1):
            return self._pixel(x.value)
        raise CannotLower(
            f"it gets {self.shapes[x.value]} as {x.shape}, which moves numbers between channels "
            "and pixels"
        )

    def vector(self, x: Held) -> int:
        """The value of a vector (N, F) that the tensor is."""
        if len(x.shape) != 2:
            raise CannotLower(f"it takes vectors (N, F), and gets {x.shape}")
        if len(self.shapes[x.value]) == 2:
            return x.value
        if x.value not in self._vectors:
            self._vectors[x.value] = self._again(f"{self.name}.flatten", "flatten", [x.value])
        return self._vectors[x.value]

    def plain(self, x: Held) -> int:
        """The value of the map or vector that the tensor is."""
        return self.map(x) if len(x.shape) == 4 else self.vector(x)

    def together(self, tensors: list[Held]) -> list[int]:
        """Values of the same kind for tensors of the same kind."""
        as_they_are = [self.shapes[x.value] for x in tensors]
        if len({len(shape) for shape in as_they_are}) == 1 and all(
            shape == x.shape for shape, x in zip(as_they_are, tensors, strict=True)
        ):
            return [x.value for x in tensors]
        return [self.plain(x) for x in tensors]

    def activate(self, x: Held, kind: str, **limits: float | None) -> Held:
        """The tensor after an activation."""
        settings = {"activation": {"kind": kind, **limits}}
        return Held(self.emit("activate", [x.value], settings), x.shape)

    def affine(self, x: Held, scale: Tensor | float, shift: Tensor | float) -> Held:
        """scale * x + shift, with a number for each channel or one for all."""
        scale, shift = (plain(torch.as_tensor(part)).flatten() for part in (scale, shift))
        if bool((scale == 1).all() and (shift == 0).all()):
            return x
        is_for_all = len(scale) == len(shift) == 1
        # With one number for all, the order of numbers does not matter.
        value = x.value if is_for_all or self._has_one_pixel(x) else self.plain(x)
        channels = self.shapes[value][1]
        parameters = {"scale": scale.expand(channels), "shift": shift.expand(channels)}
        return Held(self.emit("affine", [value], held=parameters), x.shape)

    def _has_one_pixel(self, x: Held) -> bool:
        return self.shapes[x.value][1:2] == x.shape[1:2] and self.shapes[x.value][2:] == (1, 1)

    def _pixel(self, value: int) -> int:
        """A map (N, F, 1, 1) with the numbers of a vector, made as the vector was.

        No operation turns a vector into a map, but a map of one pixel can be what all the vector
        was made of: so squeeze-and-excitation is written with Linear layers.
        """
        if len(self.shapes[value]) == 4:
            raise CannotLower(f"it gets {self.shapes[value]} as a map of one pixel")
        if value not in self._pixels:
            self._pixels[value] = self._made_as_pixel(value)
        return self._pixels[value]

    def _made_as_pixel(self, value: int) -> int:
        made = None if value < self.num_inputs else self.operations[value - self.num_inputs]
        if made is not None and made.op == "flatten":
            if self.shapes[made.inputs[0]][2:] == (1, 1):
                return made.inputs[0]
        elif made is not None and made.op == "linear":
            return self._linear_as_pixel(made)
        elif made is not None and made.op in _OF_EACH_CHANNEL:
            inputs = [self._pixel(source) for source in made.inputs]
            return self._again(made.name, made.op, inputs, made.settings, made.parameters)
        raise CannotLower(
            f"it gets a vector of {self.shapes[value][1]} numbers as a map; only what is made of "
            "maps of one pixel can become one again"
        )

    def _linear_as_pixel(self, linear: Operation) -> int:
        weight = linear.parameters["weight"]
        is_packed = isinstance(weight, LayerWeight)
        convolution = weight.as_convolution() if is_packed else weight[:, :, None, None]  # type: ignore[index, union-attr]
        settings = {**conv_settings(), **linear.settings}
        parameters = {**linear.parameters, "weight": convolution}
        source = self._pixel(linear.inputs[0])
        return self._again(linear.name, "conv", [source], settings, parameters)

    def _again(
        self,
        name: str,
        op: str,
        inputs: list[int],
        settings: Mapping[str, Any] | None = None,
        held: Mapping[str, Parameter] | None = None,
    ) -> int:
        """Emits under another name, mostly that of an operation before."""
        name, self.name = self.name, name
        value = self.emit(op, inputs, settings, held)
        self.name = name
        return value


def conv_settings(**others: Any) -> dict[str, Any]:
    """Those of a convolution, of one pixel where nothing else is said."""
    usual = {"stride": [1, 1], "padding": [0, 0, 0, 0], "dilation": [1, 1], "groups": 1}
    return {**usual, **others}
