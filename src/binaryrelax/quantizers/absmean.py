"""Ternary weights by the mean magnitude, as BitNet b1.58 makes them: a heuristic."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.quantizers.averages import magnitudes, row_means
from binaryrelax.quantizers.quantizer import Quantizer
from binaryrelax.quantizers.sharded_weights import WHOLE, Shards, row_maxima, row_minima


@dataclass(frozen=True, repr=False)
class TernaryAbsMean(Quantizer):
    """Heuristic projection onto scale * {-1, 0, +1}^n in O(n), that of BitNet b1.58.

        s = ||y||_1 / n,   Q = RoundClip(y / s, -1, 1)      (Ma et al. 2024, eqs. 1 to 3)

    Halves are rounded to even, as torch does: a weight of exactly s / 2 becomes 0.

    Applied to its own result, the formula would shrink the scale by the share that is not zero.
    So a group that lies in Q already is its own projection, and trained weights are measured and
    packed as they are. A group that is only close to Q is projected by the formula, far from where
    it is: go on training from float weights, not from ternary ones.

    ``Ternary`` is the exact projection onto the same set.

    Args:
        granularity: which weights share a scale; by default all of the layer.

    Examples:
        >>> import torch
        >>> from binaryrelax import Ternary, TernaryAbsMean, distance
        >>> w = torch.tensor([0.1, -1.0, 0.4, 2.5])
        >>> q = TernaryAbsMean().project(w)  # the scale is the mean magnitude of all weights
        >>> q, TernaryAbsMean().project(q)
        (tensor([ 0., -1.,  0.,  1.]), tensor([ 0., -1.,  0.,  1.]))
        >>> distance(w, TernaryAbsMean()), distance(w, Ternary())
        (tensor(1.5556), tensor(1.0817))
    """

    @property
    def codebook(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.split_shard(rows, WHOLE)

    def split_shard(self, shard: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
        a = magnitudes(shard)
        mean = row_means(a, shards)
        largest = row_maxima(a, shards)
        is_in_q = row_minima(a.masked_fill(a == 0, torch.inf), shards) == largest
        scale = torch.where(is_in_q, largest.double(), mean).to(shard.dtype)
        kept = a > _half_rounded_down(mean, a.dtype)[:, None]
        kept &= (scale > 0)[:, None]  # a scale that underflowed must not write -0
        return scale, shard.sign().masked_fill_(~kept, 0)


def _half_rounded_down(mean: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest ``dtype`` number <= mean / 2: comparing with it decides as exact halves would."""
    rounded = (mean / 2).to(dtype)
    below = torch.nextafter(rounded, torch.zeros_like(rounded))
    return torch.where(2 * rounded.double() > mean, below, rounded)
