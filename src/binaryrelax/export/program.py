"""A network as the native runtime runs it: few kinds of operations over numbered values.

A value is a map (N, C, H, W) or a vector (N, F). The inputs are the first values, and each
operation writes one more. What an operation does is said by ``interpreter.py``, in torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from binaryrelax.packed.packed_weight import PackedWeight

Shape = tuple[int, ...]
Layout = Literal["single", "tuple"]


@dataclass(frozen=True, eq=False)
class LayerWeight:
    """The weight of a packed layer.

    Args:
        layer: its name.
        kind: "linear" or "conv2d".
        weight: codes and scales, as they were trained; in float32, the runtime's only dtype.
    """

    layer: str
    kind: str
    weight: PackedWeight

    @property
    def shape(self) -> Shape:
        """Of the float weight."""
        return self.weight.format.shape

    def unpack(self) -> Tensor:
        """The float weight."""
        return self.weight.unpack()

    def as_convolution(self) -> LayerWeight:
        """The matrix as a convolution of one pixel, with the same codes and scales."""
        form = replace(self.weight.format, shape=(*self.shape, 1, 1))
        return LayerWeight(self.layer, "conv2d", replace(self.weight, format=form))


Parameter = Tensor | LayerWeight


@dataclass(frozen=True, eq=False)
class Operation:
    """One step of a program.

    Args:
        op: what it does, such as "conv".
        name: for people: mostly the path of a module.
        inputs: the values that it reads.
        settings: numbers and words, as the file has them.
        parameters: "weight", "factor", "bias", "scale" or "shift" -> what it holds.
    """

    op: str
    name: str
    inputs: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def has_activation(self) -> bool:
        """Whether it ends in one."""
        return "activation" in self.settings

    def to_plain(self, names: Mapping[str, str]) -> dict[str, Any]:
        """The operation as the file has it; ``names`` are those of its parameters."""
        return {
            "op": self.op, "name": self.name, "in": list(self.inputs), **names, **self.settings
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Program:
    """Operations from inputs to outputs.

    Args:
        inputs: the example's shapes without the batch.
        operations: the k-th writes value ``len(inputs) + k``.
        outputs: values.
        layout: whether calling the network gives one tensor or a tuple.
    """

    inputs: tuple[Shape, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[int, ...]
    layout: Layout

    def numbered(self) -> Iterator[tuple[int, Operation]]:
        """Each operation with the number of the value that it writes."""
        return enumerate(self.operations, start=len(self.inputs))


def plain(tensor: Tensor) -> Tensor:
    """The tensor for a program, apart from the network that it was in."""
    return tensor.detach().to(torch.float64)
