"""The two half-steps of Lloyd's algorithm, and how a split ends.

Section 2.1 of the paper: given the scale, each weight takes its nearest level (Q-update); given
the levels, the scale is <Q, y> / ||Q||^2 (s-update).
"""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax.quantizers.averages import power_of_two_above
from binaryrelax.quantizers.sharded_weights import WHOLE, Shards, row_maxima, row_minima

_INTEGER = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def nearest_levels(a: Tensor, scale: Tensor, levels: Tensor) -> Tensor:
    """Q-update: the level nearest to each magnitude / scale, float64."""
    middles = (levels[1:] + levels[:-1]) / 2
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))  # zeros take the lowest level
    index = torch.bucketize(a / safe[:, None], middles, right=True, out_int32=True)
    return levels[index]


def best_scale(a: Tensor, codes: Tensor, shards: Shards = WHOLE) -> Tensor:
    """s-update: <Q, |y|> / ||Q||^2 of each row, 0 where all codes are 0."""
    unit = power_of_two_above(a, shards)
    gain, cost = shards.total((a / unit * codes).sum(1)), shards.total(codes.square().sum(1))
    return (gain / cost).nan_to_num(0.0) * unit[:, 0]


def refit(a: Tensor, levels: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scale made consistent: settles weights on the edge between two levels."""
    codes = nearest_levels(a, best_scale(a, codes), levels)
    return codes, best_scale(a, codes)


def finish_split(
    rows: Tensor, codes: Tensor, scale: Tensor, shards: Shards = WHOLE
) -> tuple[Tensor, Tensor]:
    """Scale and signed codes in the dtype of ``rows``."""
    levels = codes.to(rows.dtype)
    top = row_maxima(levels, shards).clamp_(min=1)
    largest = torch.finfo(rows.dtype).max / top  # keep products finite
    scale = torch.minimum(scale.to(rows.dtype), largest)
    scale = keep_points_of_q(rows.abs(), levels, scale, shards)
    negative = (rows < 0) & (scale > 0)[:, None]  # a scale that underflowed must not write -0
    return scale, torch.where(negative & (levels > 0), -levels, levels)


def keep_points_of_q(a: Tensor, levels: Tensor, scale: Tensor, shards: Shards = WHOLE) -> Tensor:
    """The scale that reproduces a row which lies in Q already, else ``scale``.

    Rounding scale * 3 to the weights' dtype can move the least-squares scale by an ulp, and with
    it the projection of a projection. A weight at the lowest level in use gives the scale back up
    to an ulp or two; if one of these reproduces the whole row, the row is its own projection.
    """
    lowest = row_minima(levels.masked_fill(levels == 0, torch.inf), shards)
    at_lowest = levels == lowest[:, None]
    smallest = row_minima(a.masked_fill(~at_lowest, torch.inf), shards)
    largest = row_maxima(a.masked_fill(~at_lowest, 0), shards)
    if a.device.type == "cpu" and not bool((smallest == largest).any()):
        return scale
    guess = (smallest / lowest).view(_INTEGER[a.dtype])  # positive floats step like their bits
    candidates = [(guess + ulps).view(a.dtype) for ulps in (2, -2, 1, -1, 0)]
    misses = torch.stack([(x[:, None] * levels != a).any(1) for x in candidates])
    for candidate, misses_some in zip(candidates, shards.largest(misses), strict=True):
        scale = torch.where(misses_some, scale, candidate)
    return scale
