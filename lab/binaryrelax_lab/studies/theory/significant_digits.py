"""Numbers for JSON files: few digits, so that the last bits of a machine do not show."""

from typing import Any

import torch
from torch import Tensor

DIGITS = 6
NOTHING = 1e-15


def rounded(value: float | Tensor, digits: int = DIGITS) -> float:
    """The number to so many significant digits; what is left of a 0 after rounding is 0."""
    number = float(value)
    return float(f"{number:.{digits - 1}e}") if abs(number) > NOTHING else 0.0


def rounded_list(values: Tensor | list[float], digits: int = DIGITS) -> list[Any]:
    """All of them, nested as they are."""
    numbers = values.tolist() if isinstance(values, torch.Tensor) else values
    return [rounded_list(v, digits) if isinstance(v, list) else rounded(v, digits) for v in numbers]
