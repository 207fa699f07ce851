"""Binary weights: Q = scale * {-1, +1}^n."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.quantizers.averages import magnitudes, row_means
from binaryrelax.quantizers.quantizer import ExactQuantizer
from binaryrelax.quantizers.sharded_weights import WHOLE, Shards


@dataclass(frozen=True, repr=False, eq=False)
class Binary(ExactQuantizer):
    """Exact projection onto scale * {-1, +1}^n in O(n).

        s* = ||y||_1 / n,   Q*_i = 1 if y_i >= 0 else -1      (eq. 5)

    Args:
        granularity: which weights share a scale; by default all of the layer.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary
        >>> w = torch.tensor([0.5, -1.0, 0.0, 2.5])
        >>> Binary().project(w)  # the scale is the mean magnitude; zero goes to +1
        tensor([ 1., -1.,  1.,  1.])
    """

    @property
    def codebook(self) -> tuple[float, ...]:
        return (-1.0, 1.0)

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return split_binary(rows)

    def split_shard(self, shard: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
        return split_binary(shard, shards)


def split_binary(rows: Tensor, shards: Shards = WHOLE) -> tuple[Tensor, Tensor]:
    """Scale and signs of eq. 5, one scale per row. Zero goes to +1: two levels, never three."""
    scale = row_means(magnitudes(rows), shards).to(rows.dtype)
    negative = (rows < 0) & (scale > 0)[:, None]  # a scale that underflowed must not write -0
    return scale, torch.ones_like(rows).masked_fill_(negative, -1)
