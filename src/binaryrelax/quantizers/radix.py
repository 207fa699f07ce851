"""Exact ternary projection of one long row without a sort.

Non-negative floats are ordered like their bit patterns. A first histogram over the top 15 bits of
|y| gives the count and sum of each bin. They exclude nearly every bin as the place of the cut
between kept and dropped weights; those few are resolved to single float values.

Everything that decides is exact: the weights of a bin share one exponent, so a float64 sum of
them is a whole number of ulps, and the last candidates are compared as rational numbers. Nor does
it matter, then, how many processes share the weights: histograms and counts of values are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from binaryrelax.quantizers.sharded_weights import WHOLE, Shards

LOW_BITS = 16
NUM_BINS = 1 << 15
NUM_VALUES = 1 << LOW_BITS  # distinct floats in a bin
MOST_WEIGHTS = 1 << 29  # so many 24-bit mantissas still add exactly in float64
CHUNK = 1 << 15  # weights looked at together: so few that torch neither starts nor awaits threads
MOST_TABLES = 32  # bins whose 65536 possible values are counted in tables; more are sorted
MOST_SORTED = 1 << 20  # so few weights are sorted faster than counted
SLACK = 1e-12  # far above float64 rounding: floats only preselect
CPU = torch.device("cpu")  # said explicitly: torch.set_default_device may say otherwise
UNIT = 149  # every float32 is a whole multiple of 2^-149


@dataclass(frozen=True)
class Cut:
    """Keep the ``count`` weights >= ``smallest``; they add up to ``total`` * 2^-149."""

    smallest: float
    total: int
    count: int

    def beats(self, other: Cut) -> bool:
        """Whether total^2 / count is larger (eq. 6); of equal ones, the larger scale wins."""
        mine, theirs = self.total**2 * other.count, other.total**2 * self.count
        return mine > theirs or (mine == theirs and self.count < other.count)


class Bins:
    """The non-empty bins of the first histogram, largest magnitudes first.

    ``above_*`` leaves a bin out and ``kept_*`` includes it: the two ends of what a cut inside
    the bin can keep.
    """

    def __init__(self, a: Tensor, shards: Shards) -> None:
        counts, sums = (shards.total(x) for x in _histogram(a))
        self.keys = counts.nonzero().flatten().flip(0)
        self.counts, self.sums = counts[self.keys].double(), sums[self.keys]
        self.low = _floats(self.keys << LOW_BITS)
        self.high = _floats((self.keys << LOW_BITS) + NUM_VALUES - 1)
        self.kept_counts, self.kept_sums = self.counts.cumsum(0), self.sums.cumsum(0)
        self.above_counts = self.kept_counts - self.counts
        self.above_sums = self.kept_sums - self.sums
        self.exact_sums = list(accumulate(map(_units, self.sums.tolist()), initial=0))

    def boundary_cuts(self) -> list[Cut]:
        """The best cuts between two bins."""
        value = self.kept_sums / self.kept_counts.sqrt()
        near_best = (value >= value.max() * (1 - SLACK)).nonzero().flatten().tolist()
        return [
            Cut(float(self.low[i]), self.exact_sums[i + 1], int(self.kept_counts[i]))
            for i in near_best
        ]

    def suspects(self, best: float) -> Tensor:
        """Bins that a cut better than ``best`` may run through.

        At the optimum all kept weights are >= s/2 and all dropped ones <= s/2, where
        s/2 = A/2B falls from the bin's upper to its lower end: it must meet the bin's range.
        The j largest weights of the bin add up to at most min(j * high, sum - (count - j) * low);
        A^2/B is largest where these two bounds cross, or at an end of the bin.
        """
        may_hold_half_scale = (self.kept_sums <= 2 * self.kept_counts * self.high * (1 + SLACK)) & (
            self.above_sums >= 2 * self.above_counts * self.low * (1 - SLACK)
        )
        crossing = (self.sums - self.counts * self.low) / (self.high - self.low)
        bound = self.above_sums + crossing * self.high
        bound = (bound / (self.above_counts + crossing).sqrt()).nan_to_num(0.0)
        suspect = may_hold_half_scale & (bound >= best * (1 - SLACK)) & (self.counts > 1)
        return suspect.nonzero().flatten()


def exact_ternary_cut(a: Tensor, shards: Shards = WHOLE) -> tuple[float, float]:
    """Where to cut, and the mean of the weights kept: t* and s* of eq. 6.

    Args:
        a: magnitudes, float32, one dimension, fewer than 2^29.
        shards: the processes that hold the rest of the weights.

    Returns:
        (cut, scale): the projection keeps a >= cut. For zeros alone, (inf, 0.0).
    """
    bins = Bins(a, shards)
    if bins.exact_sums[-1] == 0:
        return float("inf"), 0.0
    best = _best_of(bins.boundary_cuts())
    keys = bins.keys[bins.suspects(_value(best))]
    if keys.numel():
        best = _best_of([best, *_cuts_inside(*_values_of_all(a, keys, shards), bins)])
    return best.smallest, best.total / (best.count << UNIT)


def _histogram(a: Tensor) -> tuple[Tensor, Tensor]:
    """Count and exact sum of the weights in each bin, a bin being the top 15 bits."""
    counts = torch.zeros(NUM_BINS, dtype=torch.int64, device=CPU)
    sums = torch.zeros(NUM_BINS, dtype=torch.float64, device=CPU)
    for chunk in torch.split(a, CHUNK):
        keys = chunk.view(torch.int32) >> LOW_BITS
        counts += torch.bincount(keys, minlength=NUM_BINS)
        sums += torch.bincount(keys, weights=chunk.double(), minlength=NUM_BINS)
    return counts, sums


def _values_of_all(a: Tensor, keys: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
    """``_distinct_values`` of all shards: equal ones become one, their counts add up."""
    patterns, counts = _distinct_values(a, keys)
    if shards is WHOLE:
        return patterns, counts
    patterns, counts = shards.gathered(patterns), shards.gathered(counts)
    distinct, place = torch.unique(patterns, return_inverse=True)
    return distinct.flip(0), torch.zeros_like(distinct).index_add_(0, place, counts).flip(0)


def _distinct_values(a: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct weights in the bins ``keys`` as bit patterns, decreasing, and their counts."""
    wanted = torch.zeros(NUM_BINS, dtype=torch.bool, device=CPU)
    wanted[keys] = True
    pieces = []
    for chunk in torch.split(a, CHUNK):
        bits = chunk.view(torch.int32)
        pieces.append(bits.masked_select(wanted.index_select(0, bits >> LOW_BITS)))
    bits = torch.cat(pieces)
    if bits.numel() <= MOST_SORTED or keys.numel() > MOST_TABLES:
        values, counts = torch.unique(bits, return_counts=True)
        return values.long().flip(0), counts.flip(0)
    place = torch.zeros(NUM_BINS, dtype=torch.int64, device=CPU)
    place[keys] = torch.arange(len(keys), device=CPU)
    table = torch.zeros(len(keys) << LOW_BITS, dtype=torch.int64, device=CPU)
    for chunk in torch.split(bits, max(CHUNK, len(table))):  # each adds a table of this length
        at = (place.index_select(0, chunk >> LOW_BITS) << LOW_BITS) + (chunk & (NUM_VALUES - 1))
        table += torch.bincount(at, minlength=len(table))
    counts = table.view(-1, NUM_VALUES).flip(1).flatten()  # keys decrease: now all values do
    patterns = (
        (keys[:, None] << LOW_BITS) + torch.arange(NUM_VALUES, device=CPU).flip(0)
    ).flatten()
    present = counts.nonzero().flatten()
    return patterns[present], counts[present]


def _cuts_inside(patterns: Tensor, counts: Tensor, bins: Bins) -> list[Cut]:
    """The best cuts that run through bins, given their distinct weights, decreasing.

    Equal weights are kept or dropped together: A^2/B is convex along a run of them.
    """
    place = torch.zeros(NUM_BINS, dtype=torch.int64, device=CPU)
    place[bins.keys] = torch.arange(len(bins.keys), device=CPU)
    row = place[patterns >> LOW_BITS]
    exponents = (patterns >> 23).clamp(min=1)
    mantissas = (patterns & 0x7FFFFF) + ((patterns >> 23 > 0).long() << 23)
    ulps, inside = _sums_within(row, counts * mantissas), _sums_within(row, counts)
    sums = torch.ldexp(ulps.double(), exponents - 150)  # exact: one exponent in a bin
    kept_counts = bins.above_counts[row] + inside
    value = (bins.above_sums[row] + sums) / kept_counts.sqrt()
    near_best = (value >= value.max() * (1 - SLACK)).nonzero().flatten()
    chosen = (_floats(patterns[near_best]), row[near_best], sums[near_best], kept_counts[near_best])
    return [
        Cut(smallest, bins.exact_sums[i] + _units(total), int(count))
        for smallest, i, total, count in zip(*(x.tolist() for x in chosen), strict=True)
    ]


def _sums_within(row: Tensor, x: Tensor) -> Tensor:
    """Running sums of the integers ``x`` that start anew where ``row`` changes; exact."""
    before = x.cumsum(0) - x
    is_first = torch.ones_like(row, dtype=torch.bool)
    is_first[1:] = row[1:] != row[:-1]
    start = torch.where(is_first, torch.arange(len(row), device=CPU), 0).cummax(0).values
    return before + x - before[start]


def _best_of(cuts: list[Cut]) -> Cut:
    best = cuts[0]
    for cut in cuts[1:]:
        if cut.beats(best):
            best = cut
    return best


def _value(cut: Cut) -> float:
    """A / sqrt(B), the square root of the objective of eq. 6, as a float."""
    return cut.total / (1 << UNIT) / math.sqrt(cut.count)


def _floats(bits: Tensor) -> Tensor:
    """The float32 numbers with these bit patterns, as float64."""
    return bits.to(torch.int32).view(torch.float32).double()


def _units(x: float) -> int:
    """x as a whole multiple of 2^-149."""
    numerator, denominator = x.as_integer_ratio()
    return numerator << (UNIT - denominator.bit_length() + 1)
