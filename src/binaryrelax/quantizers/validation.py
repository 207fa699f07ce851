"""Checks of constructor arguments: each error names the call, the rule and the value."""

from __future__ import annotations

import math
from numbers import Integral, Real

import torch
from torch import Tensor

from binaryrelax.quantizers.dtensors import known_to_all, local_part


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
