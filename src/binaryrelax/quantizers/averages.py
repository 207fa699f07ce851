"""Row means that a second projection reproduces to the bit.

float64 sums of float32 (and narrower) weights are exact for equal summands, so a row of ±s has
the mean s. float32 sums would drift, and with them every scale each time it is recomputed.
"""

from __future__ import annotations

import torch
from torch import Tensor


def magnitudes(rows: Tensor) -> Tensor:
    """|rows| in float32 or float64: half precision is widened, which is exact."""
    wide = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
    return wide.abs()


def row_means(a: Tensor) -> Tensor:
    """The mean of each row, float64."""
    if a.dtype == torch.float64:
        return kept_means(a, torch.ones_like(a, dtype=torch.bool))
    return a.sum(1, dtype=torch.float64) / a.shape[1]


def kept_means(a: Tensor, kept: Tensor) -> Tensor:
    """The mean of each row's kept entries, float64; 0 where nothing is kept."""
    count = kept.sum(1).clamp_(min=1)
    if a.dtype != torch.float64:
        return (a * kept).sum(1, dtype=torch.float64) / count
    unit = power_of_two_above(a)
    a = a / unit
    mean = (a * kept).sum(1) / count  # this rounds: correct it by the mean residual
    mean += ((a - mean[:, None]) * kept).sum(1) / count
    return mean * unit[:, 0]


def power_of_two_above(a: Tensor) -> Tensor:
    """A power of two for each row, (rows, 1), that divides its largest entry into [1/2, 1).

    Only float64 needs it, whose squares and sums can leave the range of float64; else 1.
    """
    if a.dtype != torch.float64:
        return torch.ones(a.shape[0], 1, dtype=torch.float64, device=a.device)
    exponent = torch.frexp(a.amax(1, keepdim=True)).exponent
    return torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent.clamp_(-1021, 1023))
