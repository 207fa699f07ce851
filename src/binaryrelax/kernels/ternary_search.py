"""Exact ternary without a sort, for all rows at once (eq. 6).

A cut c keeps the magnitudes >= c; A is their sum, B their number, and the best cut has the largest
A^2/B. The search counts magnitudes in bins of their bits, which gives A and B at every edge of a
bin, and drops each bin in which no cut can be better than the best edge so far:

* the best cut separates at half its scale, A/(2B), so the bin must contain such a value;
* with A0, B0 above the bin and A1, B1 with it, the j largest of its n magnitudes sum to at most
  min(A0 + j high, A1 - (n - j) low), and A^2/B of that bound is convex in j on both sides of the
  corner: it is enough to look at the corner.

What is left is searched in the same way with narrower bins, until they hold a single float. The
first bins lie around the cut that the row had before; elsewhere a few edges are enough to show that
nothing can be better. If they do not show it, or the search takes longer than the launches that are
planned for it, it only gets slower: the answer is always exact.

Sums of magnitudes >= c are exact in float64: they are multiples of the last bit of c, and with
c near A/(2B) even 2^28 of them stay under 2^53 such units. So the result does not depend on the
order of summation, the chunks, or the guess that the search began with.
"""

import triton
import triton.language as tl

from binaryrelax.kernels.chunks import (
    INFINITY_BITS,
    as_float64,
    bits_not_below,
    magnitude_bits,
    row_address,
    row_length,
)

DEPTH = tl.constexpr(8)  # intervals that wait to be searched, the narrowest on top
COARSE_EDGES = tl.constexpr(8)
EDGES_BELOW = tl.constexpr(3)  # of them under the bins
NUM_EDGES = tl.constexpr(11)  # with the bins' own two, and one at 0
NUM_SUMS = tl.constexpr(16)  # of a chunk: above the bins, all, those at the coarse edges; padded
COLUMNS = tl.constexpr(512)
SMALL_ROW = tl.constexpr(1 << 16)  # weights; small rows have so few that wide bins cost nothing
JOINED = tl.constexpr(4)  # suspicious bins this close together are searched at once
COUNT_SHIFT = tl.constexpr(38)  # a bin's number is above its sum of offsets, in one integer
ONE_COUNT = tl.constexpr(1 << 38)
PACKED_SHIFT = tl.constexpr(13)  # sums of 2^25 offsets under 2^13 fit below the number
SLACK = tl.constexpr(1e-12)  # far above the rounding of float64 sums
COARSE_SLACK = tl.constexpr(1e-4)  # far above that of float32 sums


@triton.jit
def count_around_guess(
    y_rows, lengths, first_chunks, row_of_chunk, ratios, totals, counts,
    bins, partial_totals, partial_counts, partial_tops,
    LOG_BINS: tl.constexpr, CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Counts bins around half the scale that each row had before, and coarsely all the rest."""
    chunk = tl.program_id(0)
    row = tl.load(row_of_chunk + chunk)
    y = row_address(y_rows, row, ALIGNED)
    length = row_length(lengths, row, ALIGNED)
    bottom, ceiling, shift, edges = _bracket(row, length, ratios, totals, counts, LOG_BINS)
    my_bins = bins + (row.to(tl.int64) << LOG_BINS)
    start = (chunk - tl.load(first_chunks + row)) * CHUNK
    coarse = tl.zeros([COARSE_EDGES, COLUMNS], tl.float32)  # only for bounds
    coarse_count = tl.zeros([COARSE_EDGES, COLUMNS], tl.int32)
    everything = tl.zeros([COLUMNS], tl.float32)
    above = tl.zeros([COLUMNS], tl.float64)
    above_count = tl.zeros([COLUMNS], tl.int32)
    top = tl.zeros([COLUMNS], tl.int32)
    for position in range(start, tl.minimum(length, start + CHUNK), 2 * COLUMNS):
        bits0 = _bits_at(y, position, length)  # two loads are on their way before the first is used
        bits1 = _bits_at(y, position + COLUMNS, length)
        coarse, coarse_count = _tally(bits0, edges, coarse, coarse_count)
        coarse, coarse_count = _tally(bits1, edges, coarse, coarse_count)
        everything += bits0.to(tl.float32, bitcast=True) + bits1.to(tl.float32, bitcast=True)
        above += tl.where(bits0 >= ceiling, as_float64(bits0), 0.0)
        above += tl.where(bits1 >= ceiling, as_float64(bits1), 0.0)
        above_count += (bits0 >= ceiling).to(tl.int32) + (bits1 >= ceiling).to(tl.int32)
        top = tl.maximum(top, tl.maximum(bits0, bits1))
        _fill_packed(bits0, bottom, ceiling, shift, my_bins)
        _fill_packed(bits1, bottom, ceiling, shift, my_bins)
    k = tl.arange(0, COARSE_EDGES)
    at = chunk * NUM_SUMS
    tl.store(partial_totals + at, tl.sum(above, 0))
    tl.store(partial_counts + at, tl.sum(above_count, 0))
    tl.store(partial_totals + at + 1, tl.sum(everything.to(tl.float64), 0))
    tl.store(partial_totals + at + 2 + k, tl.sum(coarse.to(tl.float64), 1))
    tl.store(partial_counts + at + 2 + k, tl.sum(coarse_count, 1))
    tl.store(partial_tops + chunk, tl.max(top, 0))


@triton.jit
def search_around_guess(
    y_rows, lengths, first_chunks, row_of_chunk, ratios,
    bins, partial_totals, partial_counts, partial_tops, edge_bits, edge_totals, edge_counts,
    sums, best_values, totals, counts, cuts,
    depths, lows, highs, above_totals, above_counts,
    LOG_BINS: tl.constexpr, CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Takes the best edge that ``count_around_guess`` has counted at; leaves what is suspicious.

    One program for each row. Counting is a launch of its own, because a program that does both
    needs so many registers that too few of them run at a time.
    """
    row = tl.program_id(0)
    first = tl.load(first_chunks + row)
    num_chunks = tl.load(first_chunks + row + 1) - first
    length = row_length(lengths, row, ALIGNED)
    bottom, ceiling, shift, edges = _bracket(row, length, ratios, totals, counts, LOG_BINS)
    my_bins = bins + (row.to(tl.int64) << LOG_BINS)
    found, found_count = _add_chunks(first, num_chunks, partial_totals, partial_counts)
    top = _highest(first, num_chunks, partial_tops)
    is_finite = top < INFINITY_BITS
    highest = tl.minimum(top, INFINITY_BITS) + 1
    tl.store(sums + row, tl.where(is_finite, 0.0, float("nan")))
    base, base_count = _pick(found, 0), _pick(found_count, 0)
    value = base * base / tl.maximum(base_count, 1)  # the ceiling of the bins is an edge too
    tl.debug_barrier()  # the guess has been read
    tl.store(best_values + row, value)
    tl.store(totals + row, base)
    tl.store(counts + row, base_count)
    tl.store(cuts + row, ceiling)
    tl.debug_barrier()
    upto, upto_count = _search_bins(
        row, my_bins, my_bins, bottom, ceiling, shift, base, base_count, 0, True,
        best_values, totals, counts, cuts,
        depths, lows, highs, above_totals, above_counts, LOG_BINS,
    )  # fmt: skip
    _store_edges(
        row, edges, bottom, ceiling, highest, found, found_count, upto, upto_count, length,
        edge_bits, edge_totals, edge_counts,
    )  # fmt: skip
    tl.debug_barrier()
    lowest = _lowest_suspect_outside(row, edge_bits, edge_totals, edge_counts, best_values)
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
def count_inside(
    y_rows, lengths, first_chunks, row_of_chunk, bins, bin_counts, depths, lows, highs,
    LOG_BINS: tl.constexpr, CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Counts bins of the topmost interval that waits in each row."""
    chunk = tl.program_id(0)
    row = tl.load(row_of_chunk + chunk)
    depth = tl.load(depths + row)
    if depth > 0:
        y = row_address(y_rows, row, ALIGNED)
        length = row_length(lengths, row, ALIGNED)
        start = (chunk - tl.load(first_chunks + row)) * CHUNK
        my_bins = bins + (row.to(tl.int64) << LOG_BINS)
        my_counts = bin_counts + (row.to(tl.int64) << LOG_BINS)
        bottom, ceiling, shift = _interval(row, depth, lows, highs, LOG_BINS)
        stop = tl.minimum(length, start + CHUNK)
        _fill_from(y, start, stop, length, bottom, ceiling, shift, my_bins, my_counts)


@triton.jit
def search_inside(
    y_rows, lengths, first_chunks, row_of_chunk, bins, bin_counts,
    best_values, totals, counts, cuts,
    depths, lows, highs, above_totals, above_counts,
    UNTIL_DONE: tl.constexpr, LOG_BINS: tl.constexpr,
    CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Replaces the interval that was counted by what is suspicious in it; one program for each row.

    With UNTIL_DONE it then counts and searches by itself until nothing waits.
    """
    row = tl.program_id(0)
    depth = tl.load(depths + row)
    if depth > 0:
        y = row_address(y_rows, row, ALIGNED)
        length = row_length(lengths, row, ALIGNED)
        my_bins = bins + (row.to(tl.int64) << LOG_BINS)
        my_counts = bin_counts + (row.to(tl.int64) << LOG_BINS)
        bottom, ceiling, shift = _interval(row, depth, lows, highs, LOG_BINS)
        _search_top(
            row, depth, my_bins, my_counts, bottom, ceiling, shift,
            best_values, totals, counts, cuts,
            depths, lows, highs, above_totals, above_counts, LOG_BINS,
        )  # fmt: skip
        if UNTIL_DONE:
            tl.debug_barrier()
            depth = tl.load(depths + row, cache_modifier=".cg")
            while depth > 0:
                bottom, ceiling, shift = _interval(row, depth, lows, highs, LOG_BINS)
                _fill_from(y, 0, length, length, bottom, ceiling, shift, my_bins, my_counts)
                tl.debug_barrier()
                _search_top(
                    row, depth, my_bins, my_counts, bottom, ceiling, shift,
                    best_values, totals, counts, cuts,
                    depths, lows, highs, above_totals, above_counts, LOG_BINS,
                )  # fmt: skip
                tl.debug_barrier()
                depth = tl.load(depths + row, cache_modifier=".cg")


@triton.jit
def _bracket(row, length, ratios, totals, counts, LOG_BINS: tl.constexpr):
    """Where the first bins lie, their width, and the coarse edges outside; all are bits.

    Large rows have narrow bins, small rows wide ones that reach over four powers of two: there the
    few edges outside would often not be enough.
    """
    guess = tl.load(totals + row) / (2.0 * tl.maximum(tl.load(counts + row), 1))
    guess = tl.where(guess < float("inf"), guess, 0.0)  # also when it was NaN
    is_small = length <= SMALL_ROW
    shift = tl.where(is_small, 25 - LOG_BINS, 21 - LOG_BINS)
    from_ratio = tl.where(is_small, 0.5, 0.96)
    to_ratio = tl.where(is_small, 8.0, 1.04)
    low = tl.maximum(bits_not_below(guess * from_ratio) >> shift, 1)  # zeros are not counted
    high = tl.maximum(bits_not_below(guess * to_ratio) >> shift, low) + 1
    high = tl.minimum(high, low + (1 << LOG_BINS))
    bottom = low << shift
    ceiling = tl.minimum(high << shift, INFINITY_BITS)  # 0 * infinity would spoil the sums
    k = tl.arange(0, COARSE_EDGES)
    edges = bits_not_below(guess * tl.load(ratios + k))
    edges = tl.where(k < EDGES_BELOW, tl.minimum(edges, bottom), tl.maximum(edges, ceiling))
    return bottom, ceiling, shift, edges


@triton.jit
def _interval(row, depth, lows, highs, LOG_BINS: tl.constexpr):
    """The topmost interval that waits, and the width of bins that cover it."""
    at = row * DEPTH + depth - 1
    low = tl.load(lows + at, cache_modifier=".cg")
    high = tl.load(highs + at, cache_modifier=".cg")
    shift = low * 0
    for bit in tl.static_range(31 - LOG_BINS):
        shift += (((high - low - 1) >> (LOG_BINS + bit)) > 0).to(tl.int32)
    # Bins begin at multiples of their width, so that each lies between two powers of two.
    is_too_long = ((high - 1) >> shift) - (low >> shift) >= (1 << LOG_BINS)
    shift += is_too_long.to(tl.int32)
    return (low >> shift) << shift, high, shift


@triton.jit
def _bits_at(y, position, length):
    """The magnitudes of some weights, 0 behind the end of the row; 0 is under all edges."""
    at = position + tl.arange(0, COLUMNS)
    return magnitude_bits(tl.load(y + at, mask=at < length, other=0.0))


@triton.jit
def _tally(bits, edges, total, count):
    """Adds the magnitudes that reach each edge."""
    reached = bits[None, :] >= edges[:, None]
    total += tl.where(reached, bits.to(tl.float32, bitcast=True)[None, :], 0.0)
    count += reached.to(tl.int32)
    return total, count


@triton.jit
def _fill_packed(bits, bottom, ceiling, shift, bins):
    """Adds number (high bits) and sum of the offsets inside the bin (low bits)."""
    offset = bits - bottom
    inside = offset - ((offset >> shift) << shift)
    chosen = (bits >= bottom) & (bits < ceiling)
    packed = inside.to(tl.int64) + ONE_COUNT
    tl.atomic_add(bins + (offset >> shift), packed, mask=chosen, sem="relaxed")


@triton.jit
def _fill_from(y, start, stop, length, bottom, ceiling, shift, bins, bin_counts):
    """Counts the weights of a stretch of a row."""
    if shift <= PACKED_SHIFT:
        for position in range(start, stop, 4 * COLUMNS):
            bits0 = _bits_at(y, position, length)
            bits1 = _bits_at(y, position + COLUMNS, length)
            bits2 = _bits_at(y, position + 2 * COLUMNS, length)
            bits3 = _bits_at(y, position + 3 * COLUMNS, length)
            _fill_packed(bits0, bottom, ceiling, shift, bins)
            _fill_packed(bits1, bottom, ceiling, shift, bins)
            _fill_packed(bits2, bottom, ceiling, shift, bins)
            _fill_packed(bits3, bottom, ceiling, shift, bins)
    else:
        for position in range(start, stop, COLUMNS):
            _fill(_bits_at(y, position, length), bottom, ceiling, shift, bins, bin_counts)


@triton.jit
def _fill(bits, bottom, ceiling, shift, bins, bin_counts):
    """Adds number and sum of the offsets of wide bins, each for itself."""
    offset = bits - bottom
    place = offset >> shift
    chosen = (bits >= bottom) & (bits < ceiling)
    inside = (offset - (place << shift)).to(tl.int64)
    tl.atomic_add(bin_counts + place, chosen.to(tl.int64), mask=chosen, sem="relaxed")
    tl.atomic_add(bins + place, inside, mask=chosen & (inside > 0), sem="relaxed")


@triton.jit
def _search_top(
    row, depth, bins, bin_counts, bottom, ceiling, shift, best_values, totals, counts, cuts,
    depths, lows, highs, above_totals, above_counts, LOG_BINS: tl.constexpr,
):  # fmt: skip
    """Replaces the topmost interval by what is suspicious in it."""
    at = row * DEPTH + depth - 1
    base = tl.load(above_totals + at, cache_modifier=".cg")
    base_count = tl.load(above_counts + at, cache_modifier=".cg")
    _search_bins(
        row, bins, bin_counts, bottom, ceiling, shift, base, base_count, depth - 1, False,
        best_values, totals, counts, cuts,
        depths, lows, highs, above_totals, above_counts, LOG_BINS,
    )  # fmt: skip


@triton.jit
def _search_bins(
    row, bins, bin_counts, bottom, ceiling, shift, base, base_count, depth, PACKED: tl.constexpr,
    best_values, totals, counts, cuts,
    depths, lows, highs, above_totals, above_counts, LOG_BINS: tl.constexpr,
):  # fmt: skip
    """Takes the best edge of the bins, and puts suspicious bins on top of ``depth`` intervals.

    The bins are emptied for the next launch. In a bin all floats have the same distance, so that
    its sum follows from the number and the sum of offsets, exactly. Returns sum and number of all
    magnitudes from the lowest bin on.
    """
    k = tl.arange(0, 1 << LOG_BINS)
    packed = tl.load(bins + k, cache_modifier=".cg")
    n = (packed >> COUNT_SHIFT).to(tl.int32)
    offsets = (packed & (ONE_COUNT - 1)).to(tl.float64)
    if not PACKED:  # noqa: SIM102 (known when compiling; the other is not)
        if shift > PACKED_SHIFT:
            n = tl.load(bin_counts + k, cache_modifier=".cg").to(tl.int32)
            offsets = packed.to(tl.float64)
            tl.store(bin_counts + k, tl.zeros([1 << LOG_BINS], tl.int64))
    tl.debug_barrier()  # all bins have been read
    tl.store(bins + k, tl.zeros([1 << LOG_BINS], tl.int64))
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
    best = _take_best(row, low, upto, upto_count, there, best_values, totals, counts, cuts)
    is_suspect = there & (n >= 2) & (low + 1 < high)
    is_suspect &= _can_be_better(low, high, above, above_count, upto, upto_count, best, SLACK)
    _push(
        row, is_suspect, low, high, above, above_count, depth,
        depths, lows, highs, above_totals, above_counts, LOG_BINS,
    )  # fmt: skip
    return base + tl.sum(inner, 0), base_count + tl.sum(n, 0)


@triton.jit
def _take_best(row, low, upto, upto_count, there, best_values, totals, counts, cuts):
    """Keeps the best of the edges; equal values go to the larger cut, with the larger scale."""
    value = tl.where(there & (upto_count > 0), upto * upto / tl.maximum(upto_count, 1), -1.0)
    top = tl.max(value, 0)
    cut = tl.max(tl.where(value == top, low, 0), 0)
    old = tl.load(best_values + row, cache_modifier=".cg")
    old_cut = tl.load(cuts + row, cache_modifier=".cg")
    is_better = (top > old) | ((top == old) & (cut > old_cut))
    chosen = tl.where(is_better, ((value == top) & (low == cut)).to(tl.int32), 0) != 0
    tl.debug_barrier()  # what is replaced below has been read
    at = row + 0 * low
    tl.store(best_values + at, value, mask=chosen)
    tl.store(totals + at, upto, mask=chosen)
    tl.store(counts + at, upto_count, mask=chosen)
    tl.store(cuts + at, low, mask=chosen)
    return tl.maximum(top, old)


@triton.jit
def _can_be_better(low, high, above, above_count, upto, upto_count, best, slack):
    """Whether some cut inside [low, high) could be better than the best; see the module's text."""
    bottom, ceiling = as_float64(low), as_float64(high)
    n = (upto_count - above_count).to(tl.float64)
    width = tl.maximum(ceiling - bottom, 1e-60)  # less than any distance of two float32 numbers
    corner = tl.minimum(tl.maximum((upto - above - n * bottom) / width, 0.0), n)
    bound = above + corner * ceiling
    # Written so that a sum that overflowed means yes.
    is_worse = bound * bound * (1 + slack) < best * (above_count + corner)
    is_too_high = upto > 2 * ceiling * upto_count * (1 + slack)
    is_too_low = above * (1 + slack) < 2 * bottom * above_count
    return (is_worse | is_too_high | is_too_low) == 0


@triton.jit
def _push(
    row, is_suspect, low, high, above, above_count, depth,
    depths, lows, highs, above_totals, above_counts, LOG_BINS: tl.constexpr,
):  # fmt: skip
    """Puts the suspects on top: all at once if they are close, else the lowest above the rest.

    Either way what is on top is narrower than what it came from: the search ends.
    """
    k = tl.arange(0, 1 << LOG_BINS)
    none = 1 << LOG_BINS
    first = tl.min(tl.where(is_suspect, k, none), 0)
    second = tl.min(tl.where(is_suspect & (k > first), k, none), 0)
    last = tl.max(tl.where(is_suspect, k, -1), 0)
    is_split = tl.where(last - first >= JOINED, 1, 0)
    tl.debug_barrier()  # what is replaced below has been read
    at = row * DEPTH + depth + 0 * low
    tl.store(lows + at, low, mask=k == tl.where(is_split == 1, second, first))
    tl.store(highs + at, high, mask=k == last)
    tl.store(above_totals + at, above, mask=k == last)
    tl.store(above_counts + at, above_count, mask=k == last)
    alone = k == tl.where(is_split == 1, first, none)
    tl.store(lows + at + 1, low, mask=alone)
    tl.store(highs + at + 1, high, mask=alone)
    tl.store(above_totals + at + 1, above, mask=alone)
    tl.store(above_counts + at + 1, above_count, mask=alone)
    tl.store(depths + row, tl.where(last >= 0, depth + 1 + is_split, depth))


@triton.jit
def _store_edges(
    row, edges, bottom, ceiling, highest, found, found_count, upto, upto_count, length,
    edge_bits, edge_totals, edge_counts,
):  # fmt: skip
    """Brings all edges into increasing order: 0, those below the bins, the bins' two, the others.

    Behind them comes the end of all magnitudes.
    """
    at = row * NUM_SUMS
    k = tl.arange(0, COARSE_EDGES)
    tl.store(edge_bits + at + _place_of_coarse(k), edges)
    tl.store(edge_bits + at, 1)
    tl.store(edge_bits + at + EDGES_BELOW + 1, bottom)
    tl.store(edge_bits + at + EDGES_BELOW + 2, ceiling)
    tl.store(edge_bits + at + NUM_EDGES, highest)
    i = tl.arange(0, NUM_SUMS)  # as the chunks have stored them: ceiling, all, coarse edges
    place = tl.where(i == 0, EDGES_BELOW + 2, tl.where(i == 1, 0, _place_of_coarse(i - 2)))
    count = tl.where(i == 1, length, found_count)
    is_sum = i < COARSE_EDGES + 2
    tl.store(edge_totals + at + place, found, mask=is_sum)
    tl.store(edge_counts + at + place, count, mask=is_sum)
    tl.store(edge_totals + at + EDGES_BELOW + 1, upto)
    tl.store(edge_counts + at + EDGES_BELOW + 1, upto_count)


@triton.jit
def _place_of_coarse(k):
    """Where a coarse edge stands among all edges."""
    return tl.where(k < EDGES_BELOW, k + 1, k + 3)


@triton.jit
def _lowest_suspect_outside(row, edge_bits, edge_totals, edge_counts, best_values):
    """The lower edge of the lowest interval outside the bins that could hold a better cut."""
    k = tl.arange(0, NUM_SUMS)
    at = row * NUM_SUMS + k
    is_interval = (k < NUM_EDGES) & (k != EDGES_BELOW + 1)
    low = tl.load(edge_bits + at, mask=is_interval, other=1, cache_modifier=".cg")
    high = tl.load(edge_bits + at + 1, mask=is_interval, other=1, cache_modifier=".cg")
    upto = tl.load(edge_totals + at, mask=is_interval, other=0.0, cache_modifier=".cg")
    upto_count = tl.load(edge_counts + at, mask=is_interval, other=0, cache_modifier=".cg")
    has_next = k < NUM_EDGES - 1  # nothing is above the last
    above = tl.load(edge_totals + at + 1, mask=has_next, other=0.0, cache_modifier=".cg")
    above_count = tl.load(edge_counts + at + 1, mask=has_next, other=0, cache_modifier=".cg")
    best = tl.load(best_values + row, cache_modifier=".cg")
    at_edge = upto * upto * (1 + COARSE_SLACK) >= best * tl.maximum(upto_count, 1)
    inside = _can_be_better(low, high, above, above_count, upto, upto_count, best, COARSE_SLACK)
    is_suspect = is_interval & (upto_count > above_count) & (low < high) & (at_edge | inside)
    return tl.min(tl.where(is_suspect, low, 0x7FFFFFFF), 0)


@triton.jit
def _add_chunks(first, num_chunks, partial_totals, partial_counts):
    """The sums of a row from those of its chunks, in their order."""
    k = tl.arange(0, NUM_SUMS)
    lanes = tl.arange(0, 128)
    total = tl.zeros([128, NUM_SUMS], tl.float64)
    count = tl.zeros([128, NUM_SUMS], tl.int32)
    for position in range(0, num_chunks, 128):
        there = (position + lanes < num_chunks)[:, None]
        at = (first + position + lanes)[:, None] * NUM_SUMS + k[None, :]
        total += tl.load(partial_totals + at, there, other=0.0, cache_modifier=".cg")
        count += tl.load(partial_counts + at, there, other=0, cache_modifier=".cg")
    return tl.sum(total, 0), tl.sum(count, 0)


@triton.jit
def _pick(values, place):
    """One of NUM_SUMS values."""
    return tl.sum(tl.where(tl.arange(0, NUM_SUMS) == place, values, 0), 0)


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
