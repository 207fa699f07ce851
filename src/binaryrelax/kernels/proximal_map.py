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
        projected = signed_levels(old, scale, cut, BINARY)
        tl.store(x + at, proximal_point(old, projected, mix), mask=inside)


@triton.jit
def signed_levels(weights, scale, cut, BINARY: tl.constexpr):
    """± the scale, or 0 for magnitudes under the cut; a scale that underflowed writes no -0."""
    level = tl.where(weights < 0, -scale, scale)
    if BINARY:
        return tl.where(scale > 0, level, 0.0)
    else:
        return tl.where(magnitude_bits(weights) >= cut, level, 0.0)


@triton.jit
def proximal_point(weights, projected, mix):
    """Between the weights and their projection (eq. 11); exactly one of them for mix 0 or 1."""
    towards_y = weights + mix * (projected - weights)
    towards_q = projected - (projected - weights) * (1 - mix)
    return tl.where(mix < 0.5, towards_y, towards_q)
