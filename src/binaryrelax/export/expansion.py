"""How a graph makes a float weight from codes and scales, with operators that every runtime has.

A byte holds several codes, and there are only 256 bytes: one look-up in a table gives the levels of
all of its codes. Runtimes do this once, when they load the graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from binaryrelax.export.tracing import TracedWeight
from binaryrelax.packed.bits import pack_trits, unpack_bits, unpack_trits
from binaryrelax.packed.packed_weight import TERNARY, WeightFormat

Array = npt.NDArray[Any]
Value = TypeVar("Value")  # what a graph calls an intermediate result


class Operators(ABC, Generic[Value]):
    """The operators of a graph format that an expansion needs."""

    @abstractmethod
    def constant(self, array: Array, name: str = "") -> Value:
        """A constant; one without a name may be shared."""

    @abstractmethod
    def look_up(self, table: Value, indices: Value) -> Value:
        """table[indices], for indices of any integer type."""

    @abstractmethod
    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The value in another shape; one size may be -1."""

    @abstractmethod
    def first_columns(self, value: Value, count: int) -> Value:
        """value[:, :count]."""

    @abstractmethod
    def multiply(self, value: Value, factor: Value) -> Value:
        """value * factor."""

    @abstractmethod
    def sum_rows(self, value: Value) -> Value:
        """value.sum(-1) of a matrix."""

    @abstractmethod
    def convert(self, value: Value, dtype: torch.dtype) -> Value:
        """The value in another type."""


def expand(operators: Operators[Value], traced: TracedWeight) -> Value:
    """The float weight, bit for bit ``layer.weight``, made from its codes inside the graph."""
    levels = _levels(operators, traced)
    scale = operators.constant(column_of_scales(traced), part_name(traced, "scale"))
    form = traced.weight.format
    shape = form.num_scales, form.num_weights // form.num_scales
    groups = operators.reshape(levels, shape)
    return finish(operators, traced, operators.multiply(groups, scale), shape)


def finish(
    operators: Operators[Value], traced: TracedWeight, product: Value, shape: tuple[int, ...]
) -> Value:
    """The weight in its dtype and shape, from the product of levels and scales in float32.

    float32 holds the product of two float16 or bfloat16 numbers exactly: rounding it gives what
    multiplying them in their own type does.
    """
    form, dtype = traced.weight.format, torch.float32
    for wanted in (form.dtype, traced.dtype):
        if wanted != dtype:
            product, dtype = operators.convert(product, wanted), wanted
    return product if shape == form.shape else operators.reshape(product, form.shape)


def column_of_scales(traced: TracedWeight) -> Array:
    """The scales, one row each."""
    return as_array(traced.weight.scale.unsqueeze(1))


def part_name(traced: TracedWeight, part: str) -> str:
    """The name that a packed file gives to the codes or the scale of the weight."""
    return traced.name.removesuffix("weight") + part


def as_array(tensor: Tensor) -> Array:
    """The tensor for another library, contiguous."""
    array: Array = tensor.detach().cpu().contiguous().numpy()
    return array


def _levels(operators: Operators[Value], traced: TracedWeight) -> Value:
    """codebook[code] in float32, (rows, row length)."""
    weight, form = traced.weight, traced.weight.format
    if form.codebook == TERNARY:
        codes, table = pack_trits(weight.indices().flatten(1)), unpack_trits(_every_byte(), 5)
    elif 8 % form.bits == 0:
        codes, table = weight.codes, unpack_bits(_every_byte(), 8 // form.bits, form.bits)
    else:
        return operators.look_up(_level_table(operators, form), _indices(operators, traced))
    levels = _rounded_levels(form)
    table = levels[table.int().clamp_max(len(levels) - 1)]  # codes beyond the codebook never come
    return _look_up_bytes(operators, traced, codes, as_array(table), form.row_length)


def _indices(operators: Operators[Value], traced: TracedWeight) -> Value:
    """The codes as numbers, (rows, row length), for widths that do not divide a byte."""
    form, weight = traced.weight.format, traced.weight
    table = as_array(unpack_bits(_every_byte(), 8, 1).int())
    stream = _look_up_bytes(operators, traced, weight.codes, table, form.row_length * form.bits)
    places = operators.constant(np.left_shift(1, np.arange(form.bits), dtype=np.int32))
    bits = operators.reshape(stream, (form.num_weights, form.bits))
    indices = operators.sum_rows(operators.multiply(bits, places))
    return operators.reshape(indices, (form.num_rows, form.row_length))


def _look_up_bytes(
    operators: Operators[Value], traced: TracedWeight, codes: Tensor, table: Array, width: int
) -> Value:
    """What the table says for each byte of a row, one after the other; the first ``width``."""
    stored = operators.constant(as_array(codes), part_name(traced, "codes"))
    rows, all_columns = len(codes), codes.shape[1] * table.shape[1]
    values = operators.look_up(operators.constant(table), stored)
    values = operators.reshape(values, (rows, all_columns))
    return values if width == all_columns else operators.first_columns(values, width)


def _level_table(operators: Operators[Value], form: WeightFormat) -> Value:
    return operators.constant(as_array(_rounded_levels(form)))


def _rounded_levels(form: WeightFormat) -> Tensor:
    """The codebook as the weight's dtype holds it, in float32."""
    return torch.tensor(form.codebook, dtype=form.dtype, device="cpu").float()


def _every_byte() -> Tensor:
    return torch.arange(256, dtype=torch.uint8, device="cpu").unsqueeze(1)
