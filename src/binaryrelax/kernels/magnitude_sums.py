"""Sums over each row: all that Binary and the heuristics need, and where Ternary begins."""

import triton
import triton.language as tl

from binaryrelax.kernels.chunks import (
    as_float64,
    bits_above,
    bits_not_below,
    chunk_of_program,
    is_last_of_row,
    magnitude_bits,
    row_address,
    row_length,
)
from binaryrelax.kernels.descent import descend, pace

ALL_BITS = tl.constexpr(0x7FFFFFFF)  # above those of every magnitude
TILE_ROWS = tl.constexpr(4)
TILE_COLUMNS = tl.constexpr(1024)  # a tile is summed along its rows inside each thread


@triton.jit
def sum_magnitudes(
    y_rows, lengths, first_chunks, row_of_chunk, arrived,
    earlier_totals, partial_totals, partial_counts, partial_largest, partial_smallest,
    totals, counts, cuts,
    gradients, firsts, seconds, step_counts, lr_address,
    blend_first, blend_second, epsilon, weight_decay,
    ABOVE: tl.constexpr, ABSMEAN: tl.constexpr, DESCENT: tl.constexpr,
    CHUNK: tl.constexpr, ALIGNED: tl.constexpr, BACKWARDS: tl.constexpr,
):  # fmt: skip
    """Sum and number of each row's magnitudes; with ABOVE > 0, of those >= ABOVE * mean (eq. 7).

    The mean then comes from ``earlier_totals``, the sums of a launch before, and the threshold
    goes to ``cuts``. With ABSMEAN, scale and threshold are known after this launch alone
    (``scale_and_cut``). With DESCENT, y takes its step before (``descent.descend``).
    """
    chunk = chunk_of_program(BACKWARDS)
    row = tl.load(row_of_chunk + chunk)
    first = tl.load(first_chunks + row)
    num_chunks = tl.load(first_chunks + row + 1) - first
    y = row_address(y_rows, row, ALIGNED)
    length = row_length(lengths, row, ALIGNED)
    gradient = row_address(gradients, row, ALIGNED)
    first_moment = row_address(firsts, row, ALIGNED)
    second_moment = row_address(seconds, row, ALIGNED)
    lr, rate, root = pace(lr_address, step_counts, row, blend_first, blend_second, DESCENT)
    start = (chunk - first) * CHUNK
    stop = tl.minimum(length, start + CHUNK)
    tile_rows = tl.arange(0, TILE_ROWS)[:, None] * TILE_COLUMNS
    offsets = tile_rows + tl.arange(0, TILE_COLUMNS)[None, :]
    total = tl.zeros([TILE_COLUMNS], tl.float64)
    count = tl.zeros([TILE_COLUMNS], tl.int32)
    largest = tl.zeros([TILE_COLUMNS], tl.int32)
    smallest = tl.full([TILE_COLUMNS], ALL_BITS, tl.int32)
    if ABOVE > 0:
        # Rounded up: comparing with a float32 then decides as the float64 threshold would.
        cut = bits_not_below(tl.load(earlier_totals + row) / length * ABOVE)
        tl.store(cuts + row, cut)  # the same from all chunks of the row
    for position in range(start, stop, TILE_ROWS * TILE_COLUMNS):
        at = position + offsets
        inside = at < length
        weights = descend(
            y, gradient, first_moment, second_moment, at, inside, lr, rate, root,
            blend_first, blend_second, epsilon, weight_decay, DESCENT,
        )  # fmt: skip
        bits = magnitude_bits(weights)
        if ABOVE > 0:
            kept = (bits >= cut) & inside
            total += tl.sum(tl.where(kept, as_float64(bits), 0.0), 0)
            count += tl.sum(kept.to(tl.int32), 0)
        else:
            total += tl.sum(as_float64(bits), 0)
        if ABSMEAN:
            largest = tl.maximum(largest, tl.max(bits, 0))
            smallest = tl.minimum(smallest, smallest_nonzero(bits, 0))
    tl.store(partial_totals + chunk, tl.sum(total, 0))
    tl.store(partial_counts + chunk, tl.sum(count, 0) if ABOVE > 0 else stop - start)
    if ABSMEAN:
        tl.store(partial_largest + chunk, tl.max(largest, 0))
        tl.store(partial_smallest + chunk, tl.min(smallest, 0))
    if is_last_of_row(arrived, row, num_chunks):
        row_total, row_count = _add_chunks(first, num_chunks, partial_totals, partial_counts)
        if ABSMEAN:
            row_total, row_count = _finish_absmean(
                row, row_total / length, first, num_chunks, partial_largest, partial_smallest, cuts
            )
        tl.store(totals + row, row_total)
        tl.store(counts + row, row_count)


@triton.jit
def _finish_absmean(row, mean, first, num_chunks, partial_largest, partial_smallest, cuts):
    """Total and count whose ratio is the scale of a row; its threshold goes to ``cuts``."""
    largest, smallest = _extremes(first, num_chunks, partial_largest, partial_smallest)
    scale, cut = scale_and_cut(mean, largest, smallest)
    tl.store(cuts + row, cut)
    return scale, 1


@triton.jit
def smallest_nonzero(bits, AXIS: tl.constexpr):
    """The smallest bits along an axis that are not 0."""
    return tl.min(tl.where(bits > 0, bits, ALL_BITS), AXIS)


@triton.jit
def scale_and_cut(mean, largest, smallest):
    """What ``TernaryAbsMean`` makes of rows, given the bits of their extreme nonzero magnitudes.

    A row with one magnitude lies in Q and stays; else the scale is the mean, and weights above its
    half are kept. If the scale underflows, none is: that would write -0.
    """
    scale = tl.where(largest == smallest, as_float64(largest), mean)
    cut = tl.where(scale.to(tl.float32) > 0, bits_above(mean * 0.5), ALL_BITS)
    return scale, cut


@triton.jit
def _extremes(first, num_chunks, partial_largest, partial_smallest):
    """The bits of the largest and smallest nonzero magnitude of a row."""
    lanes = tl.arange(0, 1024)
    largest = tl.zeros([1024], tl.int32)
    smallest = tl.full([1024], ALL_BITS, tl.int32)
    for position in range(0, num_chunks, 1024):
        there = position + lanes < num_chunks
        at = first + position + lanes
        top = tl.load(partial_largest + at, mask=there, other=0, cache_modifier=".cg")
        bottom = tl.load(partial_smallest + at, mask=there, other=ALL_BITS, cache_modifier=".cg")
        largest, smallest = tl.maximum(largest, top), tl.minimum(smallest, bottom)
    return tl.max(largest, 0), tl.min(smallest, 0)


@triton.jit
def _add_chunks(first, num_chunks, partial_totals, partial_counts):
    """Sum and number of a row from those of its chunks, in their order."""
    lanes = tl.arange(0, 1024)
    total = tl.zeros([1024], tl.float64)
    count = tl.zeros([1024], tl.int32)
    for position in range(0, num_chunks, 1024):
        there = position + lanes < num_chunks
        at = first + position + lanes
        total += tl.load(partial_totals + at, mask=there, other=0.0, cache_modifier=".cg")
        count += tl.load(partial_counts + at, mask=there, other=0, cache_modifier=".cg")
    return tl.sum(total, 0), tl.sum(count, 0)
