"""Exact scale for any levels: eq. 4 solved by a sweep over breakpoints.

As s falls from infinity, weight i moves from level q_j to q_{j+1} when s passes
2|y_i| / (q_j + q_{j+1}). Between two such breakpoints the codes are constant, their best scale is
A/B with A = <Q, |y|> and B = ||Q||^2, and their squared error is ||y||^2 - A^2/B. So the optimum is
the state of the sweep with the largest A^2/B. ``full_sweep`` visits every state and is the
reference; ``bracketed_sweep`` excludes intervals of s that cannot hold the optimum.
"""

from __future__ import annotations

import torch
from torch import Tensor

TIE = 2.0**-48  # relative; objective values that float64 sums cannot tell apart are ties
PIECES = 8  # an interval of s is cut into so many at a time
SLACK = 1e-13  # relative; keeps rounding from excluding an interval wrongly


def running_sums(x: Tensor) -> Tensor:
    """Cumulative sums along each row in float64, more accurate than float64 for float64 rows.

    Sums of narrower numbers are nearly exact already. Numbers around 1 are split into multiples of
    2^-24, whose sums are exact, and a small rest.
    """
    if x.dtype != torch.float64:
        return x.cumsum(1, dtype=torch.float64)
    coarse = (x * 2.0**24).round() * 2.0**-24
    return coarse.cumsum(1) + (x - coarse).cumsum(1)


def first_best(values: Tensor) -> Tensor:
    """The first index of each row whose value is the largest, up to rounding: (rows, 1).

    Sweeps run from large to small scales, so of tied optima this takes the larger scale.
    """
    threshold = values.amax(1, keepdim=True) * (1 - TIE)
    return (values >= threshold).to(torch.uint8).argmax(1, keepdim=True)


def full_sweep(a: Tensor, levels: Tensor) -> Tensor:
    """The optimal scale of each row of magnitudes, by sorting all n(m-1) breakpoints.

    Args:
        a: magnitudes, (rows, n).
        levels: the m magnitudes q_1 < ... < q_m of the codebook, float64.
    """
    a = a.double()
    middles = (levels[1:] + levels[:-1]) / 2
    breakpoints = (a[:, :, None] / middles).flatten(1)
    order = breakpoints.argsort(dim=1, descending=True)
    gain = (a[:, :, None] * levels.diff()).flatten(1).gather(1, order)
    cost = levels.square().diff().repeat(a.shape[1]).expand_as(order).gather(1, order)
    start_gain = levels[0] * a.sum(1, keepdim=True)
    start_cost = (levels[0].square() * a.shape[1]).expand_as(start_gain)
    gain = running_sums(torch.cat([start_gain, gain], 1))  # A after each breakpoint
    cost = torch.cat([start_cost, cost], 1).cumsum(1)  # B
    best = first_best((gain / cost.sqrt()).nan_to_num(0.0))
    return (gain.gather(1, best) / cost.gather(1, best)).nan_to_num(0.0)[:, 0]


class SortedRows:
    """Rows of sorted magnitudes with prefix sums: A(s) and B(s) for any s in O(m log n)."""

    def __init__(self, a: Tensor, levels: Tensor) -> None:
        ascending = a.sort(dim=1).values
        self.num_weights = a.shape[1]
        self.flat = ascending.double().flatten()
        prefix = torch.zeros(a.shape[0], a.shape[1] + 1, dtype=torch.float64, device=a.device)
        prefix[:, 1:] = running_sums(ascending)
        self.prefix = prefix.flatten()
        self.largest, self.total = ascending[:, -1].double(), prefix[:, -1]
        self.levels, self.middles = levels, (levels[1:] + levels[:-1]) / 2

    def state(self, row: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A, B and the number of breakpoints passed when the sweep of ``row`` is at ``scale``."""
        row = row[..., None]
        below = self._count_below(row, scale[..., None] * self.middles)
        above_sum = self.total[row] - self.prefix[row * (self.num_weights + 1) + below]
        above_count = self.num_weights - below
        lowest, levels = self.levels[0], self.levels
        gain = lowest * self.total[row[..., 0]] + (above_sum * levels.diff()).sum(-1)
        cost = lowest.square() * self.num_weights
        cost = cost + (above_count * levels.square().diff()).sum(-1)
        return gain, cost, above_count.sum(-1)

    def _count_below(self, row: Tensor, threshold: Tensor) -> Tensor:
        """How many weights of each row lie below the threshold: binary search in all at once."""
        if self.flat.numel() == self.num_weights:  # one row
            return torch.searchsorted(self.flat, threshold)
        low = torch.zeros_like(threshold, dtype=torch.int64)
        high = torch.full_like(low, self.num_weights)
        for _ in range(self.num_weights.bit_length()):
            middle = (low + high) // 2
            at = (row * self.num_weights + middle).clamp_(max=self.flat.numel() - 1)
            is_below = (self.flat[at] < threshold) & (low < high)
            low = torch.where(is_below, middle + 1, low)
            high = torch.where(is_below, high, middle)
        return low


def bracketed_sweep(a: Tensor, levels: Tensor) -> Tensor:
    """The optimal scale of each row, like ``full_sweep``, looking only where it can lie.

    Write r = 1/s. The squared error at scale s, with nearest codes, is ||y||^2 - H(r)/r^2 with
    H(r) = max_Q 2r<Q,|y|> - ||Q||^2 = 2rA - B: a maximum of lines in r, so convex, so below its
    chord between two values of r. The chord bounds what an interval of s can attain to second
    order in its width. Intervals that might still hold the optimum are cut up until they hold at
    most one breakpoint: their two ends are then all their states.
    """
    rows = SortedRows(a, levels)
    found = _Best(a.shape[0], a.device)
    # s* >= mean|y|/q_m by Chebyshev's sum inequality; s* <= max|y|/q for the smallest q > 0.
    row = rows.largest.nonzero().flatten()
    low = (rows.total / rows.num_weights / levels[-1])[row] * (1 - SLACK)
    high = (rows.largest / levels[levels > 0][0])[row] * (1 + SLACK)
    steps = torch.arange(PIECES + 1, device=a.device) / PIECES
    while row.numel():
        edges = low[:, None] * (high / low)[:, None] ** steps
        edges[:, -1] = high
        row = row[:, None].expand_as(edges)
        gain, cost, passed = rows.state(row, edges)
        found.improve(row, gain, cost)
        row, low, high = row[:, 1:], edges[:, :-1], edges[:, 1:]
        keep = _chord_bound(edges, gain, cost) >= found.value[row].square() * (1 - SLACK)
        keep &= (passed[:, :-1] - passed[:, 1:] > 1) & (high > low * (1 + TIE))
        row, low, high = row[keep], low[keep], high[keep]
    return found.scale


def _chord_bound(edges: Tensor, gain: Tensor, cost: Tensor) -> Tensor:
    """An upper bound of A^2/B between neighbouring edges of s.

    The chord of H is c + d*r, so H/r^2 is at most c*s^2 + d*s: largest at an end, or inside
    at s = -d/2c where c < 0.
    """
    attained = edges * (2 * gain - edges * cost)  # H/r^2
    low, high = edges[:, :-1], edges[:, 1:]
    slope_low, slope_high = attained[:, :-1] / low, attained[:, 1:] / high  # c*s + d at the ends
    c = (slope_high - slope_low) / (high - low)
    d = slope_low - c * low
    inside = (-d / (2 * c)).clamp_(low, high).nan_to_num(0.0)
    ends = torch.maximum(attained[:, :-1], attained[:, 1:])
    return torch.maximum(ends, inside * (c * inside + d))


class _Best:
    """The best state seen in each row; of tied ones the larger scale."""

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self.value = torch.zeros(num_rows, dtype=torch.float64, device=device)
        self.scale = torch.zeros_like(self.value)

    def improve(self, row: Tensor, gain: Tensor, cost: Tensor) -> None:
        row = row.flatten()
        value = (gain / cost.sqrt()).nan_to_num(0.0).flatten()
        scale = (gain / cost).nan_to_num(0.0).flatten()
        # The scale held so far stays only if it is still among the best.
        best = self.value.scatter_reduce(0, row, value, "amax")
        self.scale[self.value < best * (1 - TIE)] = 0
        tied = value >= best[row] * (1 - TIE)
        self.scale.scatter_reduce_(0, row[tied], scale[tied], "amax")
        self.value = best
