"""Weights with a scale for each short run of a row: everything in one launch.

A tile of weights holds whole groups, so their scales need nothing from other programs: y is read
once, moved if the optimizer steps, and x is written.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from binaryrelax.kernels.chunks import (
    as_float64,
    bits_not_below,
    chunk_of_program,
    magnitude_bits,
    row_address,
    row_length,
)
from binaryrelax.kernels.descent import descend, pace
from binaryrelax.kernels.launch import Launch
from binaryrelax.kernels.magnitude_sums import scale_and_cut, smallest_nonzero
from binaryrelax.kernels.proximal_map import proximal_point, signed_levels
from binaryrelax.kernels.row_table import Pair, RowTable, has_row_layout
from binaryrelax.quantizers import (
    Binary,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
)
from binaryrelax.quantizers.sweep import TIE

SIZES = (32, 64, 128, 256)  # of groups; they divide a tile, and every chunk of a row table
TILE = 2048
NUM_WARPS = 8  # so that sorting a tile leaves registers for other programs
# The quantizers as the kernel knows them; from THRESHOLD on, scales are means of what is kept.
BINARY, ABSMEAN, THRESHOLD, TERNARY = range(4)
RULES = {
    Binary: BINARY,
    TernaryAbsMean: ABSMEAN,
    TernaryThreshold: THRESHOLD,
    Ternary: TERNARY,
}
_TILE, _TIE = tl.constexpr(TILE), tl.constexpr(TIE)
_BINARY, _ABSMEAN = tl.constexpr(BINARY), tl.constexpr(ABSMEAN)
_THRESHOLD, _TERNARY = tl.constexpr(THRESHOLD), tl.constexpr(TERNARY)


@triton.jit
def relax_groups(
    x_rows, y_rows, lengths, first_chunks, row_of_chunk, place_of_row, mix_address, not_finite,
    gradients, firsts, seconds, step_counts, lr_address,
    blend_first, blend_second, epsilon, weight_decay,
    RULE: tl.constexpr, RATIO: tl.constexpr, LOG_GROUP: tl.constexpr, DESCENT: tl.constexpr,
    CHUNK: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """x = y + λ/(λ+1) (proj_Q(y) - y)      (eq. 11), each group with its own scale.

    Here a row of the table is a whole weight. One that holds a group whose sum is not finite is
    marked in ``not_finite``. With DESCENT, y takes its step before (``descent.descend``).
    """
    chunk = chunk_of_program(False)
    row = tl.load(row_of_chunk + chunk)
    start = (chunk - tl.load(first_chunks + row)) * CHUNK
    x = row_address(x_rows, row, ALIGNED)
    y = row_address(y_rows, row, ALIGNED)
    gradient = row_address(gradients, row, ALIGNED)
    first_moment = row_address(firsts, row, ALIGNED)
    second_moment = row_address(seconds, row, ALIGNED)
    lr, rate, root = pace(lr_address, step_counts, row, blend_first, blend_second, DESCENT)
    mix = tl.load(mix_address).to(tl.float32)
    length = row_length(lengths, row, ALIGNED)
    first_of_group = tl.arange(0, _TILE >> LOG_GROUP)[:, None] << LOG_GROUP
    offsets = first_of_group + tl.arange(0, 1 << LOG_GROUP)[None, :]
    for position in range(start, tl.minimum(length, start + CHUNK), _TILE):
        at = position + offsets
        inside = at < length
        weights = descend(
            y, gradient, first_moment, second_moment, at, inside, lr, rate, root,
            blend_first, blend_second, epsilon, weight_decay, DESCENT,
        )  # fmt: skip
        bits = magnitude_bits(weights)
        total = tl.sum(as_float64(bits), 1)
        is_bad = (tl.abs(total) < float("inf")) == 0  # of NaN too
        if tl.max(is_bad.to(tl.int32), 0) > 0:
            tl.store(not_finite + tl.load(place_of_row + row), True)
        scale, cut = _scale_and_cut_of(bits, total, RULE, RATIO, LOG_GROUP)
        projected = signed_levels(
            weights, scale.to(tl.float32)[:, None], cut[:, None], RULE == _BINARY
        )
        tl.store(x + at, proximal_point(weights, projected, mix), mask=inside)


@triton.jit
def _scale_and_cut_of(
    bits, total, RULE: tl.constexpr, RATIO: tl.constexpr, LOG_GROUP: tl.constexpr
):
    """The scale of each group, and the bits from which on a magnitude is kept."""
    mean = total / (1 << LOG_GROUP)
    cut = tl.zeros_like(total).to(tl.int32)
    scale = mean
    if RULE == _ABSMEAN:
        scale, cut = scale_and_cut(mean, tl.max(bits, 1), smallest_nonzero(bits, 1))
    if RULE == _THRESHOLD:
        cut = bits_not_below(mean * RATIO)
    if RULE == _TERNARY:
        cut = _best_cut(bits, LOG_GROUP)
    if RULE >= _THRESHOLD:
        kept = bits >= cut[:, None]
        count = tl.maximum(tl.sum(kept.to(tl.int32), 1), 1)
        scale = tl.sum(tl.where(kept, as_float64(bits), 0.0), 1) / count
    return scale, cut


@triton.jit
def _best_cut(bits, LOG_GROUP: tl.constexpr):
    """The bits of the smallest magnitude that exact ternary keeps in each group (eq. 6).

    As the reference finds it: of cuts that tie, the one with the fewest weights.
    """
    descending = _sorted_down(bits, LOG_GROUP)
    k = tl.arange(0, 1 << LOG_GROUP)[None, :]
    sums = tl.cumsum(as_float64(descending), 1)
    values = sums / tl.sqrt((k + 1).to(tl.float64))
    is_best = values >= (tl.max(values, 1) * (1 - _TIE))[:, None]
    first = tl.min(tl.where(is_best, k, 1 << LOG_GROUP), 1)
    cut = tl.max(tl.where(k == first[:, None], descending, 0), 1)
    return tl.maximum(cut, 1)  # zeros are not kept


@triton.jit
def _sorted_down(bits, LOG_GROUP: tl.constexpr):
    """Each row in decreasing order, by a bitonic network."""
    for stage in tl.static_range(1, LOG_GROUP + 1):
        for step in tl.static_range(stage):
            bits = _exchanged(bits, 1 << (stage - 1 - step), 1 << stage)
    return bits


@triton.jit
def _exchanged(bits, GAP: tl.constexpr, BLOCK: tl.constexpr):
    """Neighbours at a distance of GAP in order: decreasing and increasing in turns of BLOCK."""
    pairs = tl.reshape(bits, [bits.shape[0] * bits.shape[1] // (2 * GAP), 2, GAP])
    others = tl.sum(pairs, 1)[:, None, :] - pairs  # whole numbers wrap around, and come back
    others = tl.reshape(others, bits.shape)
    k = tl.arange(0, bits.shape[1])[None, :]
    takes_larger = ((k & GAP) == 0) == ((k & BLOCK) == 0)
    return tl.where(takes_larger, tl.maximum(bits, others), tl.minimum(bits, others))


def suits_short_rows(pair: Pair) -> bool:
    """Whether the scales of a weight are those of short runs of its memory."""
    granularity, y = pair.granularity, pair.y
    if type(granularity) is not PerGroup or granularity.size not in SIZES:
        return False
    is_cut_evenly = y.dim() > 0 and y.shape[1:].numel() % granularity.size == 0
    return is_cut_evenly and y.is_contiguous() and has_row_layout(pair.x, y, PerLayer())


class ShortRows:
    """The launches for weights whose groups are short.

    Args:
        quantizer: of all weights.
        rows: a row for each weight.
        not_finite: flags that are raised for weights that are not finite.
    """

    def __init__(self, quantizer: Quantizer, rows: RowTable, not_finite: Tensor) -> None:
        self.quantizer, self.rows, self.not_finite = quantizer, rows, not_finite

    def first(
        self, mix: Tensor, arguments: tuple[Tensor, ...], kind: int, *, is_aligned: bool
    ) -> Launch:
        """The launch that reads y, which may move before, and writes x."""
        rows, granularity = self.rows, self.quantizer.granularity
        assert isinstance(granularity, PerGroup)
        constants = {**rows.constants, "ALIGNED": rows.is_aligned and is_aligned}
        return Launch(
            relax_groups,
            rows.num_chunks,
            (rows.x, *rows.table, rows.place_of_row, mix, self.not_finite, *arguments),
            RULE=RULES[type(self.quantizer)],
            RATIO=getattr(self.quantizer, "ratio", 0.0),
            LOG_GROUP=granularity.size.bit_length() - 1,
            DESCENT=kind,
            num_warps=NUM_WARPS,
            **constants,
        )

    def following(self, mix: Tensor) -> list[Launch]:
        """What is launched after: nothing."""
        return []
