"""Exact ternary without a sort, for all rows at once (eq. 6).

A cut keeps the magnitudes from it on; A is their sum, B their number, and the best cut has the
largest A^2/B. With D(c) = sum of max(|y| - c, 0) = A - c B, this is 4 c D(c) where c is half the
scale, and everywhere else 4 c D(c) is smaller: (A - 2 c B)^2 >= 0. So the largest 4 c D(c) is
sought. D is convex: between two points it lies under their chord, and c times the chord is a
parabola whose top is known. An interval in which that top is below the best cut so far is done.

Counting magnitudes in bins of their bits (``ternary_bins``) gives A and B, and so D, at the edges
of all bins. What is left of them is searched in the same way with narrower bins, until they hold a
single float. The first bins lie around the cut that the row had before, and the nearest floats are
counted one by one; elsewhere a few edges are enough to show that nothing can be better. If they
are not, or the search takes longer than the launches that are planned for it, it only gets slower:
the answer is always exact.

Sums of magnitudes >= c are exact in float64: they are multiples of the last bit of c, and with
c near A/(2B) even 2^28 of them stay under 2^53 such units. So the result does not depend on the
order of summation, the chunks, or the guess that the search began with.
"""

import triton
import triton.language as tl

from binaryrelax.kernels.chunks import INFINITY_BITS, as_float64, row_length
from binaryrelax.kernels.ternary_bins import (
    BOTTOM,
    CEILING,
    COUNT_SHIFT,
    END,
    LOG_WINDOW,
    NUM_SUMS,
    ONE_COUNT,
    PACKED_SHIFT,
    WINDOW,
    bracket,
    edges_around,
    fill_topmost,
    guess_of,
)
from binaryrelax.kernels.ternary_intervals import DEPTH, push_suspects, topmost_interval

SLACK = tl.constexpr(1e-12)  # far above the rounding of float64 sums
COARSE_SLACK = tl.constexpr(4e-5)  # twice the most that float32 sums can be off


@triton.jit
def search_around_guess(
    y_rows, lengths, first_chunks, row_of_chunk, ratios,
    bins, window, partial_totals, partial_counts, partial_tops,
    sums, best_values, totals, counts, cuts,
    depths, lows, highs, above_totals, above_counts,
    WINDOWED: tl.constexpr, LOG_BINS: tl.constexpr, CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Takes the best edge that ``count_around_guess`` has counted at; leaves what is suspicious.

    One program for each row. Counting is a launch of its own, because a program that does both
    needs so many registers that too few of them run at a time.
    """
    row = tl.program_id(0)
    first = tl.load(first_chunks + row)
    num_chunks = tl.load(first_chunks + row + 1) - first
    length = row_length(lengths, row, ALIGNED)
    guess = guess_of(row, totals, counts)
    bottom, ceiling, shift, window_bottom = bracket(guess, length, WINDOWED, LOG_BINS)
    excess = _add_chunks(first, num_chunks, partial_totals)
    excess_above = _add_chunks(first, num_chunks, partial_totals + 1)
    k = tl.arange(0, NUM_SUMS)
    base = tl.sum(tl.where(k == CEILING, excess, 0.0), 0)
    base_count = _count_chunks(first, num_chunks, partial_counts)
    top = _highest(first, num_chunks, partial_tops)
    is_finite = top < INFINITY_BITS
    highest = tl.minimum(top, INFINITY_BITS) + 1
    tl.store(sums + row, tl.where(is_finite, 0.0, float("nan")))
    # The ceiling of the bins is an edge too.
    value, total, count, cut = base * base / tl.maximum(base_count, 1), base, base_count, ceiling
    n, offsets = _take_packed(bins + (row.to(tl.int64) << LOG_BINS), LOG_BINS)
    value, total, count, cut, upto, upto_count = _search_bins(
        row, n, offsets, bottom, ceiling, shift, base, base_count, 0, value, total, count, cut,
        depths, lows, highs, above_totals, above_counts, LOG_BINS,
    )  # fmt: skip
    if WINDOWED:
        value, total, count, cut = _search_window(
            row, window + (row.to(tl.int64) << LOG_WINDOW), window_bottom, shift - LOG_BINS,
            value, total, count, cut, depths, lows, highs, above_totals, above_counts, LOG_BINS,
        )  # fmt: skip
    tl.store(best_values + row, value)
    tl.store(totals + row, total)
    tl.store(counts + row, count)
    tl.store(cuts + row, cut)
    below_bins = upto - as_float64(bottom) * upto_count
    above_bins = base - as_float64(ceiling) * base_count
    low = edges_around(k, guess, bottom, ceiling, highest, ratios)
    high = edges_around(k + 1, guess, bottom, ceiling, highest, ratios)
    excess = tl.where(k == BOTTOM, below_bins, tl.where(k == CEILING, above_bins, excess))
    excess_above = tl.where(k + 1 == BOTTOM, below_bins, excess_above)
    is_suspect = _can_be_better(low, high, excess, excess_above, value, COARSE_SLACK)
    is_suspect &= (k < END) & (k != BOTTOM) & (low < high)
    lowest = tl.min(tl.where(is_suspect, low, 0x7FFFFFFF), 0)
    has_suspects_inside = tl.load(depths + row, cache_modifier=".cg") > 0
    if lowest < highest:  # search everything from there on, beginning with nothing above
        lowest = tl.where(has_suspects_inside, tl.minimum(lowest, bottom), lowest)
        tl.debug_barrier()  # what is replaced below has been read
        tl.store(lows + row * DEPTH, lowest)
        tl.store(highs + row * DEPTH, highest)
        tl.store(above_totals + row * DEPTH, 0.0)
        tl.store(above_counts + row * DEPTH, 0)
        tl.store(depths + row, 1)
    if not is_finite:
        tl.debug_barrier()
        tl.store(depths + row, 0)


@triton.jit
def search_inside(
    y_rows, lengths, first_chunks, row_of_chunk, bins, bin_counts,
    best_values, totals, counts, cuts,
    depths, lows, highs, above_totals, above_counts,
    LOG_BINS: tl.constexpr, CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Replaces the interval that was counted by what is suspicious in it; one program for each row.

    What still waits then, which is rare, is counted and searched here, until nothing does.
    """
    row = tl.program_id(0)
    length = row_length(lengths, row, ALIGNED)
    depth = tl.load(depths + row)
    value, total = tl.load(best_values + row), tl.load(totals + row)
    count, cut = tl.load(counts + row), tl.load(cuts + row)
    num_searched = 0
    while depth > 0:
        if num_searched > 0:
            fill_topmost(
                row, depth, y_rows, 0, length, length, bins, bin_counts, lows, highs, LOG_BINS
            )
            tl.debug_barrier()
        bottom, ceiling, shift = topmost_interval(row, depth, lows, highs, LOG_BINS)
        first_bin = row.to(tl.int64) << LOG_BINS
        n, offsets = _take_bins(bins + first_bin, bin_counts + first_bin, shift, LOG_BINS)
        at = row * DEPTH + depth - 1
        base = tl.load(above_totals + at, cache_modifier=".cg")
        base_count = tl.load(above_counts + at, cache_modifier=".cg")
        value, total, count, cut, _, _ = _search_bins(
            row, n, offsets, bottom, ceiling, shift, base, base_count, depth - 1,
            value, total, count, cut, depths, lows, highs, above_totals, above_counts, LOG_BINS,
        )  # fmt: skip
        num_searched += 1
        depth = tl.load(depths + row, cache_modifier=".cg")
    if num_searched > 0:
        tl.store(best_values + row, value)
        tl.store(totals + row, total)
        tl.store(counts + row, count)
        tl.store(cuts + row, cut)


@triton.jit
def _search_window(
    row, window, window_bottom, shift, value, total, count, cut,
    depths, lows, highs, above_totals, above_counts, LOG_BINS: tl.constexpr,
):  # fmt: skip
    """Searches intervals on top that lie in the window, where bins are already narrow."""
    width = 1 << (shift + LOG_BINS)
    depth = tl.load(depths + row, cache_modifier=".cg")
    is_inside = depth > 0
    while is_inside:
        at = row * DEPTH + depth - 1
        low = tl.load(lows + at, cache_modifier=".cg")
        high = tl.load(highs + at, cache_modifier=".cg")
        is_inside = (low >= window_bottom) & (high <= window_bottom + (WINDOW << shift))
        is_inside &= high - low >= width  # what is narrower was found here
        if is_inside:
            bottom = high - width
            base = tl.load(above_totals + at, cache_modifier=".cg")
            base_count = tl.load(above_counts + at, cache_modifier=".cg")
            n, offsets = _unpack(window + ((bottom - window_bottom) >> shift), LOG_BINS)
            kept = tl.where(bottom > low, depth, depth - 1)  # the rest of the interval waits
            value, total, count, cut, upto, upto_count = _search_bins(
                row, n, offsets, bottom, high, shift, base, base_count, kept,
                value, total, count, cut, depths, lows, highs, above_totals, above_counts, LOG_BINS,
            )  # fmt: skip
            if bottom > low:
                tl.store(highs + at, bottom)
                tl.store(above_totals + at, upto)
                tl.store(above_counts + at, upto_count)
            tl.debug_barrier()
            depth = tl.load(depths + row, cache_modifier=".cg")
            is_inside = depth > 0
    for start in range(0, WINDOW, 1 << LOG_BINS):  # empty for the next launch
        tl.store(window + start + tl.arange(0, 1 << LOG_BINS), tl.zeros([1 << LOG_BINS], tl.int64))
    return value, total, count, cut


@triton.jit
def _unpack(bins, LOG_BINS: tl.constexpr):
    """Numbers and sums of offsets of all bins."""
    packed = tl.load(bins + tl.arange(0, 1 << LOG_BINS), cache_modifier=".cg")
    return (packed >> COUNT_SHIFT).to(tl.int32), (packed & (ONE_COUNT - 1)).to(tl.float64)


@triton.jit
def _take_packed(bins, LOG_BINS: tl.constexpr):
    """The same; the bins are empty then."""
    n, offsets = _unpack(bins, LOG_BINS)
    tl.debug_barrier()  # all bins have been read
    tl.store(bins + tl.arange(0, 1 << LOG_BINS), tl.zeros([1 << LOG_BINS], tl.int64))
    return n, offsets


@triton.jit
def _take_bins(bins, bin_counts, shift, LOG_BINS: tl.constexpr):
    """The same, whether the bins are packed or so wide that they are not."""
    k = tl.arange(0, 1 << LOG_BINS)
    sums = tl.load(bins + k, cache_modifier=".cg")
    n, offsets = _take_packed(bins, LOG_BINS)
    if shift > PACKED_SHIFT:
        n = tl.load(bin_counts + k, cache_modifier=".cg").to(tl.int32)
        offsets = sums.to(tl.float64)
        tl.debug_barrier()
        tl.store(bin_counts + k, tl.zeros([1 << LOG_BINS], tl.int64))
    return n, offsets


@triton.jit
def _search_bins(
    row, n, offsets, bottom, ceiling, shift, base, base_count, depth, value, total, count, cut,
    depths, lows, highs, above_totals, above_counts, LOG_BINS: tl.constexpr,
):  # fmt: skip
    """Takes the best edge of the bins, and puts suspicious bins on top of ``depth`` intervals.

    Base is what lies above the bins; value, total, count and cut are those of the best cut so far.
    Returns them anew, and sum and number of all magnitudes from the lowest bin on.
    """
    k = tl.arange(0, 1 << LOG_BINS)
    low = bottom + (k << shift)
    high = low + ((k * 0 + 1) << shift)
    there = low < ceiling
    low, high = tl.where(there, low, 1), tl.where(there, tl.minimum(high, ceiling), 2)
    spacing = as_float64(low + 1) - as_float64(low)
    inner = n.to(tl.float64) * as_float64(low) + offsets * spacing
    # From the top down: a sum that went through smaller magnitudes would not be exact.
    upto = base + tl.cumsum(inner, 0, reverse=True)
    upto_count = base_count + tl.cumsum(n, 0, reverse=True)
    above, above_count = upto - inner, upto_count - n
    value, total, count, cut = _better(
        low, upto, upto_count, there & (upto_count > 0), value, total, count, cut
    )
    excess = upto - as_float64(low) * upto_count
    excess_above = above - as_float64(high) * above_count
    is_suspect = there & (n >= 2) & (low + 1 < high)
    is_suspect &= _can_be_better(low, high, excess, excess_above, value, SLACK)
    push_suspects(
        row, is_suspect, low, high, above, above_count, depth,
        depths, lows, highs, above_totals, above_counts, LOG_BINS,
    )  # fmt: skip
    tl.debug_barrier()  # what was pushed can be read
    return value, total, count, cut, base + tl.sum(inner, 0), base_count + tl.sum(n, 0)


@triton.jit
def _better(low, upto, upto_count, there, value, total, count, cut):
    """The best of the edges and the cut before; equal values go to the larger, with its scale."""
    values = tl.where(there, upto * upto / tl.maximum(upto_count, 1), -1.0)
    top = tl.max(values, 0)
    top_cut = tl.max(tl.where(values == top, low, 0), 0)
    is_chosen = (values == top) & (low == top_cut) & there
    top_total = tl.max(tl.where(is_chosen, upto, 0.0), 0)
    top_count = tl.max(tl.where(is_chosen, upto_count, 0), 0)
    is_better = (top > value) | ((top == value) & (top_cut > cut))
    return (
        tl.where(is_better, top, value),
        tl.where(is_better, top_total, total),
        tl.where(is_better, top_count, count),
        tl.where(is_better, top_cut, cut),
    )


@triton.jit
def _can_be_better(low, high, excess, excess_above, best, slack):
    """Whether 4 c D(c) could exceed the best for some c in [low, high], given D at both ends."""
    bottom, ceiling = as_float64(low), as_float64(high)
    width, fall = ceiling - bottom, excess - excess_above
    # c (excess - (c - bottom) fall / width) is largest at c = top / (2 fall), if that is inside.
    top = excess * width + bottom * fall
    is_top_inside = (top >= 2 * fall * bottom) & (top <= 2 * fall * ceiling)
    is_top_worse = top * top * (1 + slack) < best * fall * width
    is_low_worse = 4 * bottom * excess * (1 + slack) < best
    is_high_worse = 4 * ceiling * excess_above * (1 + slack) < best
    is_worse = is_low_worse & is_high_worse & (is_top_worse | (is_top_inside == 0))
    return is_worse == 0  # a sum that overflowed means yes


@triton.jit
def _add_chunks(first, num_chunks, partial_totals):
    """The sums of a row from those of its chunks, in their order."""
    k = tl.arange(0, NUM_SUMS)
    lanes = tl.arange(0, 128)
    total = tl.zeros([128, NUM_SUMS], tl.float64)
    for position in range(0, num_chunks, 128):
        there = (position + lanes < num_chunks)[:, None]
        at = (first + position + lanes)[:, None] * NUM_SUMS + k[None, :]
        total += tl.load(partial_totals + at, there, other=0.0, cache_modifier=".cg")
    return tl.sum(total, 0)


@triton.jit
def _count_chunks(first, num_chunks, partial_counts):
    """The number of weights above the bins, over all chunks of a row."""
    lanes = tl.arange(0, 1024)
    count = tl.zeros([1024], tl.int32)
    for position in range(0, num_chunks, 1024):
        there = position + lanes < num_chunks
        count += tl.load(partial_counts + first + position + lanes, there, 0, cache_modifier=".cg")
    return tl.sum(count, 0)


@triton.jit
def _highest(first, num_chunks, partial_tops):
    """The bits of the largest magnitude of a row."""
    lanes = tl.arange(0, 1024)
    top = tl.zeros([1024], tl.int32)
    for position in range(0, num_chunks, 1024):
        there = position + lanes < num_chunks
        found = tl.load(partial_tops + first + position + lanes, there, 0, cache_modifier=".cg")
        top = tl.maximum(top, found)
    return tl.max(top, 0)
