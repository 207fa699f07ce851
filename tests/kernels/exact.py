"""Eq. 6 in whole numbers: every float32 is a whole multiple of 2^-149."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

UNIT = 149


@dataclass(frozen=True)
class Cut:
    """The ``count`` weights that are kept add up to ``total`` * 2^-149."""

    total: int
    count: int

    @property
    def scale(self) -> float:
        """The mean of the kept weights."""
        return float(Fraction(self.total, self.count << UNIT))


def value_ratio(first: Cut, second: Cut) -> float:
    """A^2/B of the first over that of the second, rounded only at the end."""
    return float(Fraction(first.total**2 * second.count, second.total**2 * first.count))


def cut_of(row: Tensor, kept: Tensor) -> Cut:
    """What the kept weights of a row of float32 numbers add up to."""
    mantissas, exponents = _mantissas_and_exponents(row[kept])
    total = sum(
        int(mantissas[exponents == exponent].sum()) << exponent
        for exponent in exponents.unique().tolist()
    )
    return Cut(total, int(kept.sum()))


def best_cut(row: Tensor) -> Cut:
    """The optimum of eq. 6 over all cuts of a row; of ties, the one with the larger scale."""
    mantissas, exponents = (part.tolist() for part in _mantissas_and_exponents(row))
    units = (m << e for m, e in zip(mantissas, exponents, strict=True))
    best_total, best_square, best_count, total = 0, 0, 1, 0
    for count, magnitude in enumerate(sorted(units, reverse=True), start=1):
        total += magnitude
        square = total * total
        if square * best_count > best_square * count:  # of equal ones, the first has fewer weights
            best_total, best_square, best_count = total, square, count
    return Cut(best_total, best_count) if best_total else Cut(0, 0)


def _mantissas_and_exponents(row: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers with |row| = mantissa * 2^(exponent - 149)."""
    bits = row.abs().flatten().view(torch.int32).long()
    is_normal = bits >> 23 > 0
    return (bits & 0x7FFFFF) + (is_normal.long() << 23), (bits >> 23).clamp(min=1) - 1
