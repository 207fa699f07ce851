"""Ternary weights by the threshold of TWN: a heuristic."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.quantizers.averages import kept_means, magnitudes, row_means
from binaryrelax.quantizers.quantizer import Quantizer
from binaryrelax.quantizers.sharded_weights import WHOLE, Shards
from binaryrelax.quantizers.validation import is_finite_number, require_number


@dataclass(frozen=True, repr=False)
class TernaryThreshold(Quantizer):
    """Heuristic projection onto scale * {-1, 0, +1}^n in O(n).

        delta = ratio * ||y||_1 / n,   s = mean of the |y_i| >= delta,
        Q_i = sign(y_i) where |y_i| >= delta, else 0      (eq. 7, with ratio = 0.7)

    ``Ternary`` is the exact projection onto the same set.

    Args:
        ratio: the threshold over the mean magnitude, in (0, 1].
        granularity: which weights share a scale; by default all of the layer.

    Raises:
        ValueError: ``ratio`` is out of its range.

    Examples:
        >>> import torch
        >>> from binaryrelax import Ternary, TernaryThreshold, distance
        >>> w = torch.tensor([0.1, -1.0, 0.2, 3.0])
        >>> TernaryThreshold().project(w), distance(w, TernaryThreshold())
        (tensor([ 0., -2.,  0.,  2.]), tensor(1.4318))
        >>> Ternary().project(w), distance(w, Ternary())  # the nearest point
        (tensor([0., 0., 0., 3.]), tensor(1.0247))
    """

    ratio: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range = is_finite_number(self.ratio) and 0 < self.ratio <= 1
        # Above 1, a row of equal weights would lose all of them.
        ratio = require_number(
            "TernaryThreshold", "ratio", self.ratio, rule="in (0, 1]", holds=in_range
        )
        object.__setattr__(self, "ratio", ratio)

    @property
    def codebook(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.split_shard(rows, WHOLE)

    def split_shard(self, shard: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
        a = magnitudes(shard)
        delta = _rounded_up(self.ratio * row_means(a, shards), a.dtype)
        kept = (a >= delta[:, None]) & (a > 0)
        return kept_means(a, kept, shards).to(shard.dtype), shard.sign().masked_fill_(~kept, 0)


def _rounded_up(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest ``dtype`` number >= x: comparing with it decides as float64 would."""
    rounded = x.to(dtype)
    above = torch.nextafter(rounded, torch.full_like(rounded, torch.inf))
    return torch.where(rounded.double() < x, above, rounded)
