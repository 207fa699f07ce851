"""The last step: codes, scale and eq. 11 in one pass over the weights."""

import triton
import triton.language as tl

from binaryrelax.kernels.chunks import chunk_of_program, magnitude_bits, row_address, row_length

TILE = tl.constexpr(2048)


@triton.jit
def write_relaxed(
    x_rows, y_rows, lengths, first_chunks, row_of_chunk, place_of_row,
    sums, totals, counts, cuts, mix_address, not_finite,
    BINARY: tl.constexpr,
    CHUNK: tl.constexpr, ALIGNED: tl.constexpr, BACKWARDS: tl.constexpr,
):  # fmt: skip
    """x = y + λ/(λ+1) (proj_Q(y) - y)      (eq. 11), with scale = total / count of each row.

    The weight of a row whose sum is not finite is marked in ``not_finite``.
    """
    chunk = chunk_of_program(BACKWARDS)
    row = tl.load(row_of_chunk + chunk)
    start = (chunk - tl.load(first_chunks + row)) * CHUNK
    y = row_address(y_rows, row, ALIGNED)
    x = row_address(x_rows, row, ALIGNED)
    length = row_length(lengths, row, ALIGNED)
    total, count = tl.load(totals + row), tl.load(counts + row)
    scale = (total / tl.maximum(count, 1)).to(tl.float32)
    cut = tl.load(cuts + row)
    mix = tl.load(mix_address).to(tl.float32)
    is_finite = tl.abs(tl.load(sums + row)) < float("inf")  # False for NaN too
    if not is_finite:
        tl.store(not_finite + tl.load(place_of_row + row), True)
    stop = tl.minimum(length, start + CHUNK)
    for position in range(start, stop, TILE):
        at = position + tl.arange(0, TILE)
        inside = at < length
        old = tl.load(y + at, mask=inside, other=0.0)
        kept = tl.where(old < 0, -scale, scale)
        if BINARY:
            projected = tl.where(scale > 0, kept, 0.0)  # a scale that underflowed: no -0
        else:
            projected = tl.where(magnitude_bits(old) >= cut, kept, 0.0)
        towards_y, towards_q = (
            old + mix * (projected - old),
            projected - (projected - old) * (1 - mix),
        )
        tl.store(x + at, tl.where(mix < 0.5, towards_y, towards_q), mask=inside)
