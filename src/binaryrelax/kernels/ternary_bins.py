"""Exact ternary: where bins of magnitudes lie, and counting into them.

Bins are intervals of float bits, equally wide and beginning at multiples of their width, so that
all floats of a bin have the same distance and its sum follows from their number and their offsets.
"""

import triton
import triton.language as tl

from binaryrelax.kernels.chunks import (
    INFINITY_BITS,
    as_magnitudes,
    bits_not_below,
    chunk_of_program,
    magnitude_bits,
    row_address,
    row_length,
)
from binaryrelax.kernels.descent import descend, pace
from binaryrelax.kernels.ternary_intervals import topmost_interval

COARSE_EDGES = tl.constexpr(8)
# All edges in order: 0, three coarse ones, the two of the bins, five coarse ones, the end.
BOTTOM, CEILING, END = tl.constexpr(4), tl.constexpr(5), tl.constexpr(11)
NUM_SUMS = tl.constexpr(16)  # of a chunk, one for each edge; padded
EXACT_EDGE = tl.constexpr(-256)  # a mask: with 16 significant bits, 8 equal edges add up exactly
LOG_WINDOW = tl.constexpr(13)
WINDOW = tl.constexpr(1 << 13)  # narrow bins around the guess; in large rows, of a single float
SMALL_ROW = tl.constexpr(1 << 16)  # weights; small rows move more, and searching them is cheap
COUNT_SHIFT = tl.constexpr(38)  # a bin's number is above its sum of offsets, in one integer
ONE_COUNT = tl.constexpr(1 << 38)
PACKED_SHIFT = tl.constexpr(13)  # sums of 2^25 offsets under 2^13 fit below the number
TILE_ROWS = tl.constexpr(8)
TILE_COLUMNS = tl.constexpr(128)  # one for each thread, which adds up its rows by itself


@triton.jit
def count_around_guess(
    y_rows, lengths, first_chunks, row_of_chunk, ratios, totals, counts,
    bins, window, partial_totals, partial_counts, partial_tops,
    gradients, firsts, seconds, step_counts, lr_address,
    blend_first, blend_second, epsilon, weight_decay,
    WINDOWED: tl.constexpr, LOG_BINS: tl.constexpr, DESCENT: tl.constexpr,
    CHUNK: tl.constexpr, ALIGNED: tl.constexpr, BACKWARDS: tl.constexpr,
):  # fmt: skip
    """Counts bins around half the scale that each row had before, and sums for edges elsewhere.

    For an edge e that is D(e), the sum of max(|y|, e) - e; see ``ternary_search``. With DESCENT, y
    takes its step before (``descent.descend``).
    """
    chunk = chunk_of_program(BACKWARDS)
    row = tl.load(row_of_chunk + chunk)
    y = row_address(y_rows, row, False)  # atomics take single weights: wider loads would be spread
    length = row_length(lengths, row, ALIGNED)
    guess = guess_of(row, totals, counts)
    bottom, ceiling, shift, window_bottom = bracket(guess, length, WINDOWED, LOG_BINS)
    k = tl.arange(0, COARSE_EDGES)
    place = tl.where(k < BOTTOM - 1, k + 1, k + 3)
    edges = as_magnitudes(edges_around(place, guess, bottom, ceiling, INFINITY_BITS, ratios))
    my_bins = bins + (row.to(tl.int64) << LOG_BINS)
    my_window = window + (row.to(tl.int64) << LOG_WINDOW)
    start = (chunk - tl.load(first_chunks + row)) * CHUNK
    gradient = row_address(gradients, row, False)
    first_moment = row_address(firsts, row, False)
    second_moment = row_address(seconds, row, False)
    lr, rate, root = pace(lr_address, step_counts, row, blend_first, blend_second, DESCENT)
    excess = tl.zeros([COARSE_EDGES, TILE_COLUMNS], tl.float32)  # only for bounds
    everything = tl.zeros([TILE_COLUMNS], tl.float32)
    above = tl.zeros([TILE_COLUMNS], tl.float64)
    above_count = tl.zeros([TILE_COLUMNS], tl.int32)
    top = tl.zeros([TILE_COLUMNS], tl.int32)
    for position in range(start, tl.minimum(length, start + CHUNK), TILE_ROWS * TILE_COLUMNS):
        at = position + _tile()
        weights = descend(
            y, gradient, first_moment, second_moment, at, at < length, lr, rate, root,
            blend_first, blend_second, epsilon, weight_decay, DESCENT,
        )  # fmt: skip
        bits = magnitude_bits(weights)  # 0 behind the end of the row, which is under all edges
        magnitudes = as_magnitudes(bits)
        everything += tl.sum(magnitudes, 0)
        raised = tl.maximum(magnitudes[None, :, :], edges[:, None, None])
        excess += tl.sum(raised, 1) - TILE_ROWS * edges[:, None]
        is_above = bits >= ceiling
        above += tl.sum(tl.where(is_above, magnitudes, 0.0).to(tl.float64), 0)
        above_count += tl.sum(is_above.to(tl.int32), 0)
        top = tl.maximum(top, tl.max(bits, 0))
        _fill_packed(bits, bottom, ceiling, shift, my_bins)
        if WINDOWED:
            window_shift = shift - LOG_BINS
            window_ceiling = window_bottom + (WINDOW << window_shift)
            _fill_packed(bits, window_bottom, window_ceiling, window_shift, my_window)
    at = chunk * NUM_SUMS
    tl.store(partial_totals + at, tl.sum(everything.to(tl.float64), 0))
    tl.store(partial_totals + at + place, tl.sum(excess.to(tl.float64), 1))
    tl.store(partial_totals + at + CEILING, tl.sum(above, 0))  # the sum itself; the rest are D
    tl.store(partial_counts + chunk, tl.sum(above_count, 0))
    tl.store(partial_tops + chunk, tl.max(top, 0))


@triton.jit
def count_inside(
    y_rows, lengths, first_chunks, row_of_chunk, bins, bin_counts, depths, lows, highs,
    LOG_BINS: tl.constexpr, CHUNK: tl.constexpr, ALIGNED: tl.constexpr, BACKWARDS: tl.constexpr,
):  # fmt: skip
    """Counts bins of the topmost interval that waits in each row."""
    chunk = chunk_of_program(BACKWARDS)
    row = tl.load(row_of_chunk + chunk)
    depth = tl.load(depths + row)
    if depth > 0:
        start = (chunk - tl.load(first_chunks + row)) * CHUNK
        length = row_length(lengths, row, ALIGNED)
        fill_topmost(
            row, depth, y_rows, start, tl.minimum(length, start + CHUNK), length,
            bins, bin_counts, lows, highs, LOG_BINS,
        )  # fmt: skip


@triton.jit
def fill_topmost(
    row, depth, y_rows, start, stop, length, bins, bin_counts, lows, highs, LOG_BINS: tl.constexpr
):
    """Counts the weights start..stop of a row into bins of its topmost interval."""
    y = row_address(y_rows, row, False)
    my_bins = bins + (row.to(tl.int64) << LOG_BINS)
    my_counts = bin_counts + (row.to(tl.int64) << LOG_BINS)
    bottom, ceiling, shift = topmost_interval(row, depth, lows, highs, LOG_BINS)
    if shift <= PACKED_SHIFT:
        for position in range(start, stop, TILE_ROWS * TILE_COLUMNS):
            _fill_packed(_bits_of_tile(y, position, length), bottom, ceiling, shift, my_bins)
    else:
        for position in range(start, stop, TILE_ROWS * TILE_COLUMNS):
            _fill(_bits_of_tile(y, position, length), bottom, ceiling, shift, my_bins, my_counts)


@triton.jit
def guess_of(row, totals, counts):
    """Half the scale that the row had before."""
    guess = tl.load(totals + row) / (2.0 * tl.maximum(tl.load(counts + row), 1))
    return tl.where(guess < float("inf"), guess, 0.0)  # also when it was NaN


@triton.jit
def bracket(guess, length, WINDOWED: tl.constexpr, LOG_BINS: tl.constexpr):
    """Where the first bins begin and end, their width, and where the window begins; all in bits.

    Large rows have narrow bins, small rows wide ones, and the rows of single channels very wide
    ones: the fewer weights, the further a step can move the cut, and the less bins cost.
    """
    if WINDOWED:
        is_small = length <= SMALL_ROW
        shift = tl.where(is_small, 23 - LOG_BINS, 20 - LOG_BINS)
        from_ratio = tl.where(is_small, 0.75, 0.975)
        to_ratio = tl.where(is_small, 1.4, 1.025)
    else:
        shift = 0 * length + 25 - LOG_BINS
        from_ratio, to_ratio = 0.5, 8.0
    low = tl.maximum(bits_not_below(guess * from_ratio) >> shift, 1)  # zeros are not counted
    high = tl.maximum(bits_not_below(guess * to_ratio) >> shift, low) + 1
    high = tl.minimum(high, low + (1 << LOG_BINS))
    ceiling = tl.minimum(high << shift, INFINITY_BITS)  # 0 * infinity would spoil the sums
    # A bin is as wide as 2^LOG_BINS of the window's.
    first_in_window = (bits_not_below(guess) >> shift) - ((WINDOW >> 1) >> LOG_BINS)
    window_bottom = tl.maximum(first_in_window, 1) << shift
    return low << shift, ceiling, shift, window_bottom


@triton.jit
def edges_around(place, guess, bottom, ceiling, end, ratios):
    """The bits of the edges at these places, in increasing order up to the end."""
    ratio = tl.load(ratios + place, mask=place < END, other=0.0)
    edges = tl.minimum(bits_not_below(guess * ratio), INFINITY_BITS - 1) & EXACT_EDGE
    edges = tl.maximum(edges, 1)  # zeros are not counted
    edges = tl.where(place < BOTTOM, tl.minimum(edges, bottom), tl.maximum(edges, ceiling))
    edges = tl.where(place == 0, 1, tl.where(place == BOTTOM, bottom, edges))
    return tl.where(place == CEILING, ceiling, tl.where(place >= END, end, edges))


@triton.jit
def _tile():
    """Places of a tile of weights."""
    rows = tl.arange(0, TILE_ROWS)[:, None] * TILE_COLUMNS
    return rows + tl.arange(0, TILE_COLUMNS)[None, :]


@triton.jit
def _bits_of_tile(y, position, length):
    """The magnitudes of some weights, 0 behind the end of the row; 0 is under all edges."""
    at = position + _tile()
    return magnitude_bits(tl.load(y + at, mask=at < length, other=0.0))


@triton.jit
def _is_under(offset, limit):
    """0 <= offset < limit, in one comparison."""
    return offset.to(tl.uint32, bitcast=True) < limit


@triton.jit
def _fill_packed(bits, bottom, ceiling, shift, bins):
    """Adds number (high bits) and sum of the offsets inside the bin (low bits)."""
    offset = bits - bottom
    place = offset >> shift
    packed = (offset - (place << shift)).to(tl.int64) + ONE_COUNT
    chosen = _is_under(offset, (ceiling - bottom).to(tl.uint32))
    tl.atomic_add(bins + place, packed, mask=chosen, sem="relaxed")


@triton.jit
def _fill(bits, bottom, ceiling, shift, bins, bin_counts):
    """Adds number and sum of the offsets of wide bins, each for itself."""
    offset = bits - bottom
    place = offset >> shift
    chosen = _is_under(offset, (ceiling - bottom).to(tl.uint32))
    inside = (offset - (place << shift)).to(tl.int64)
    tl.atomic_add(bin_counts + place, chosen.to(tl.int64), mask=chosen, sem="relaxed")
    tl.atomic_add(bins + place, inside, mask=chosen & (inside > 0), sem="relaxed")
