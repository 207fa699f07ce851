"""Row means that a second projection reproduces to the bit.

float64 sums of float32 (and narrower) weights are exact for equal summands, so a row of ±s has
the mean s. float32 sums would drift, and with them every scale each time it is recomputed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax.quantizers.sharded_weights import WHOLE, Shards, row_maxima


def magnitudes(rows: Tensor) -> Tensor:
    """|rows| in float32 or float64: half precision is widened, which is exact."""
    wide = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
    return wide.abs()


def row_means(a: Tensor, shards: Shards = WHOLE) -> Tensor:
    """The mean of each row, float64."""
    count = shards.num_weights(a)
    if a.dtype == torch.float64:
        return _corrected_means(a, torch.ones_like(a, dtype=torch.bool), count, shards)
    return shards.total(a.sum(1, dtype=torch.float64)) / count


def kept_means(a: Tensor, kept: Tensor, shards: Shards = WHOLE) -> Tensor:
    """The mean of each row's kept entries, float64; 0 where nothing is kept."""
    count = shards.total(kept.sum(1)).clamp_(min=1)
    if a.dtype == torch.float64:
        return _corrected_means(a, kept, count, shards)
    return shards.total((a * kept).sum(1, dtype=torch.float64)) / count


def _corrected_means(a: Tensor, kept: Tensor, count: Tensor | int, shards: Shards) -> Tensor:
    """The mean of each row's kept float64 entries, whose sums are not exact."""
    unit = power_of_two_above(a, shards)
    a = a / unit
    mean = shards.total((a * kept).sum(1)) / count  # this rounds: correct it by the mean residual
    mean = mean + shards.total(((a - mean[:, None]) * kept).sum(1)) / count
    return mean * unit[:, 0]


def power_of_two_above(a: Tensor, shards: Shards = WHOLE) -> Tensor:
    """A power of two for each row, (rows, 1), that divides its largest entry into [1/2, 1).

    Only float64 needs it, whose squares and sums can leave the range of float64; else 1.
    """
    if a.dtype != torch.float64:
        return torch.ones(a.shape[0], 1, dtype=torch.float64, device=a.device)
    exponent = torch.frexp(row_maxima(a, shards)[:, None]).exponent
    return torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent.clamp_(-1021, 1023))
