"""Checks of what a user gives: each error names the call, the rule and the value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Protocol

import torch
from torch import Tensor

from binaryrelax.quantizers.sharded_weights import known_to_all, local_part


def require_whole(call: str, name: str, value: object, *, low: int, high: float = math.inf) -> int:
    """``value`` as a plain int; ValueError unless it is whole with low <= value <= high."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:  # type: ignore[operator]
        upper = f" and <= {high:g}" if math.isfinite(high) else ""
        raise ValueError(f"{call}({name}={value!r}): {name} must be a whole number >= {low}{upper}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def require_number(call: str, name: str, value: object, *, rule: str, holds: bool = True) -> float:
    """``value`` as a plain float; ValueError unless it is real and finite, and its rule holds."""
    if not is_finite_number(value) or not holds:
        raise ValueError(f"{call}({name}={value!r}): {name} must be a finite number {rule}")
    return float(value)  # type: ignore[arg-type]


def is_finite_number(value: object) -> bool:
    """Whether ``value`` is a real number, neither NaN nor infinite (and not a bool)."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


class HasCodebook(Protocol):
    """A quantizer."""

    @property
    def codebook(self) -> Sequence[float]:
        """The codes."""


def require_codebook(quantizer: HasCodebook) -> tuple[float, ...]:
    """The codebook of a quantizer as plain floats; ValueError unless it is one."""
    given = quantizer.codebook
    is_given = isinstance(given, Sequence) and all(is_finite_number(code) for code in given)
    codes = tuple(float(code) + 0.0 for code in given) if is_given else ()  # + 0.0: no minus zero
    if len(codes) < 2 or any(low >= high for low, high in pairwise(codes)):
        text = repr(given) if len(repr(given)) < 200 else f"{repr(given)[:200]}..."
        raise ValueError(
            f"{quantizer!r}: its codebook is {text}; it must be a tuple of two or more finite "
            "numbers, each larger than the one before, such as (-1.0, 1.0)"
        )
    return codes


def all_finite(w: Tensor) -> bool:
    """Whether no weight is NaN or infinite: one pass, no temporary; waits for the device."""
    return not known_to_all(has_non_finite(w), w)


def has_non_finite(w: Tensor) -> Tensor:
    """Whether this process holds a weight that is NaN or infinite, as a scalar on the device."""
    here = local_part(w)
    if here.numel() == 0:
        return torch.zeros((), dtype=torch.bool, device=here.device)
    least, largest = torch.aminmax(here)
    return (least.isfinite() & largest.isfinite()).logical_not()
