"""The range that bytes of a value should cover, found from how often its numbers occur."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_BINS = 4096  # on each side of zero: at least eight for each step of bytes that cover all
_SMALLEST = -100  # the exponent of numbers below which all are alike: no byte resolves them
_SHARES = 1 - 0.02 * torch.arange(48, dtype=torch.float64)  # of the farthest number
_ROUNDS = 3


class Histogram:
    """How often the numbers of a value occur; they come a batch at a time.

    Bins are equally wide and lie evenly around zero. Where a larger number comes, neighbours merge.
    """

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self._exponent = _SMALLEST
        self._counts = torch.zeros(2 * _BINS, dtype=torch.int64)

    def add(self, value: Tensor) -> None:
        """Counts the numbers, which must be finite."""
        low, high = (float(end) for end in value.aminmax())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._widen(math.frexp(max(-low, high))[1])
        places = value.div(self._width).floor_().long().add_(_BINS).flatten()
        self._counts += places.bincount(minlength=2 * _BINS)

    def byte_range(self) -> tuple[float, float]:
        """The ends between which 256 steps give the least sum of squared errors.

        What lies beyond them is cut off: a few large numbers lose, and all others gain. Each end
        is searched in turn, as a share of the farthest number on its side.
        """
        low, high = self.low, self.high
        if min(low, 0.0) == max(high, 0.0):
            return low, high
        for _ in range(_ROUNDS):
            high = self._best(torch.tensor([low]).double(), self.high * _SHARES, 1)
            low = self._best(self.low * _SHARES, torch.tensor([high]).double(), 0)
        return low, high

    def _best(self, lows: Tensor, highs: Tensor, end: int) -> float:
        found = self._squared_errors(lows, highs).argmin()
        return float((lows, highs)[end][found])

    def _squared_errors(self, lows: Tensor, highs: Tensor) -> Tensor:
        """Of rounding to bytes as the runtime does, for each pair of ends."""
        used = self._counts.nonzero().flatten()
        numbers = (used - _BINS + 0.5).double() * self._width
        scales = ((highs.clamp(min=0) - lows.clamp(max=0)) / 255).unsqueeze(1)
        zeros = (lows.clamp(max=0).unsqueeze(1) / -scales).round()
        rounded = (numbers / scales).round().clamp(-zeros, 255 - zeros) * scales
        return ((rounded - numbers).square() * self._counts[used]).sum(1)

    @property
    def _width(self) -> float:
        return math.ldexp(1.0, self._exponent) / _BINS

    def _widen(self, exponent: int) -> None:
        if exponent <= self._exponent:
            return
        merged = min(2 ** (exponent - self._exponent), _BINS)
        sums = self._counts.view(-1, merged).sum(1)
        self._counts = torch.zeros_like(self._counts)
        self._counts[_BINS - len(sums) // 2 : _BINS + len(sums) // 2] = sums
        self._exponent = exponent
