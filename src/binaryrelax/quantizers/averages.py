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
    mean = a.sum(1, dtype=torch.float64) / a.shape[1]
    if a.dtype == torch.float64:  # float64 sums of float64 round: correct by the mean residual
        mean += (a - mean[:, None]).mean(1)
    return mean


def kept_means(a: Tensor, kept: Tensor) -> Tensor:
    """The mean of each row's kept entries, float64; 0 where nothing is kept."""
    count = kept.sum(1).clamp_(min=1)
    mean = (a * kept).sum(1, dtype=torch.float64) / count
    if a.dtype == torch.float64:
        mean += ((a - mean[:, None]) * kept).sum(1) / count
    return mean
