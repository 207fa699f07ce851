"""Sums over each row: all that Binary and TernaryThreshold need, and where Ternary begins."""

import triton
import triton.language as tl

from binaryrelax.kernels.chunks import (
    as_float64,
    bits_not_below,
    chunk_of_program,
    is_last_of_row,
    magnitude_bits,
    row_address,
    row_length,
)
from binaryrelax.kernels.sgd import descend

TILE_ROWS = tl.constexpr(4)
TILE_COLUMNS = tl.constexpr(1024)  # a tile is summed along its rows inside each thread


@triton.jit
def sum_magnitudes(
    y_rows, lengths, first_chunks, row_of_chunk, arrived,
    earlier_totals, partial_totals, partial_counts, totals, counts, cuts,
    gradients, velocities, lr_address, momentum, undamped, weight_decay,
    ABOVE: tl.constexpr, DESCENT: tl.constexpr,
    CHUNK: tl.constexpr, ALIGNED: tl.constexpr, BACKWARDS: tl.constexpr,
):  # fmt: skip
    """Sum and number of each row's magnitudes; with ABOVE > 0, of those >= ABOVE * mean (eq. 7).

    The mean then comes from ``earlier_totals``, the sums of a launch before, and the threshold
    goes to ``cuts``. With DESCENT, y takes its step before (``sgd.descend``).
    """
    chunk = chunk_of_program(BACKWARDS)
    row = tl.load(row_of_chunk + chunk)
    first = tl.load(first_chunks + row)
    num_chunks = tl.load(first_chunks + row + 1) - first
    y = row_address(y_rows, row, ALIGNED)
    length = row_length(lengths, row, ALIGNED)
    start = (chunk - first) * CHUNK
    stop = tl.minimum(length, start + CHUNK)
    tile_rows = tl.arange(0, TILE_ROWS)[:, None] * TILE_COLUMNS
    offsets = tile_rows + tl.arange(0, TILE_COLUMNS)[None, :]
    total = tl.zeros([TILE_COLUMNS], tl.float64)
    count = tl.zeros([TILE_COLUMNS], tl.int32)
    if DESCENT > 0:
        gradient = row_address(gradients, row, ALIGNED)
        velocity = row_address(velocities, row, ALIGNED)
        lr = tl.load(lr_address)
    if ABOVE > 0:
        # Rounded up: comparing with a float32 then decides as the float64 threshold would.
        cut = bits_not_below(tl.load(earlier_totals + row) / length * ABOVE)
    for position in range(start, stop, TILE_ROWS * TILE_COLUMNS):
        at = position + offsets
        inside = at < length
        if DESCENT > 0:
            weights = descend(
                y, gradient, velocity, at, inside, lr, momentum, undamped, weight_decay, DESCENT
            )
        else:
            weights = tl.load(y + at, mask=inside, other=0.0)
        bits = magnitude_bits(weights)
        if ABOVE > 0:
            kept = (bits >= cut) & inside
            total += tl.sum(tl.where(kept, as_float64(bits), 0.0), 0)
            count += tl.sum(kept.to(tl.int32), 0)
        else:
            total += tl.sum(as_float64(bits), 0)
    tl.store(partial_totals + chunk, tl.sum(total, 0))
    tl.store(partial_counts + chunk, tl.sum(count, 0) if ABOVE > 0 else stop - start)
    if is_last_of_row(arrived, row, num_chunks):
        if ABOVE > 0:
            tl.store(cuts + row, cut)
        _add_chunks(row, first, num_chunks, partial_totals, partial_counts, totals, counts)


@triton.jit
def _add_chunks(row, first, num_chunks, partial_totals, partial_counts, totals, counts):
    lanes = tl.arange(0, 1024)
    total = tl.zeros([1024], tl.float64)
    count = tl.zeros([1024], tl.int32)
    for position in range(0, num_chunks, 1024):
        there = position + lanes < num_chunks
        at = first + position + lanes
        total += tl.load(partial_totals + at, mask=there, other=0.0, cache_modifier=".cg")
        count += tl.load(partial_counts + at, mask=there, other=0, cache_modifier=".cg")
    tl.store(totals + row, tl.sum(total, 0))
    tl.store(counts + row, tl.sum(count, 0))
