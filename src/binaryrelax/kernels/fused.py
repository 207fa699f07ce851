"""Relaxation of many weights in a handful of launches, without waiting for the device.

The fast twin of ``Quantizer.project`` and ``relax_`` for Binary, TernaryThreshold and exact
Ternary in float32, with one scale per layer or per channel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax.kernels.launch import Launch
from binaryrelax.kernels.means import sum_magnitudes
from binaryrelax.kernels.rows import Pair, RowTable, has_row_layout
from binaryrelax.kernels.ternary_search import (
    DEPTH,
    NUM_SUMS,
    count_around_guess,
    count_inside,
    search_around_guess,
    search_inside,
)
from binaryrelax.kernels.writing import write_relaxed
from binaryrelax.quantizers import Binary, Quantizer, Ternary, TernaryThreshold

LOG_BINS, LOG_BINS_OF_SHORT_ROWS = 11, 8  # bins of a row, as a power of two
NUM_NARROWINGS = 3  # planned; one is enough nearly always
MOST_IN_BINS = (1 << 25) - 1  # weights of a row: more could overflow a bin
# Edges around the guess of a ternary cut, in units of it, outside of the bins.
COARSE_RATIOS = (0.55, 0.75, 0.88, 1.13, 1.4, 2.0, 4.0, 12.0)
FIRST_GUESS = 0.77  # of the mean magnitude: where the cut of normal weights lies


def is_fusible(x: Tensor, y: Tensor, quantizer: Quantizer) -> bool:
    """Whether the kernels can do this weight; others take the reference."""
    known = type(quantizer) in (Binary, TernaryThreshold, Ternary)
    plain = x.dtype == y.dtype == torch.float32 and type(y) is Tensor
    if not (known and plain and has_row_layout(x, y, quantizer.granularity)):
        return False
    length = Pair(x, y, quantizer.granularity).row_length
    return length <= MOST_IN_BINS or not isinstance(quantizer, Ternary)


class FusedRelaxation:
    """Writes x from y for all weights of one quantizer.

    Args:
        quantizer: its granularity is that of all weights.
        pairs: the weights (x, y), each with ``is_fusible``.
        not_finite: flags on the device, raised for weights that are NaN or infinite.
        places: which of the flags belongs to each weight; in order, if not given.
    """

    def __init__(
        self,
        quantizer: Quantizer,
        pairs: list[tuple[Tensor, Tensor]],
        not_finite: Tensor | None = None,
        places: list[int] | None = None,
    ) -> None:
        self.quantizer = quantizer
        self.rows = RowTable(
            [Pair(x, y, quantizer.granularity) for x, y in pairs],
            list(range(len(pairs))) if places is None else places,
        )
        if not_finite is None:
            not_finite = self.rows.zeros(len(pairs), torch.bool)
        self.not_finite = not_finite
        self._scales = _Scales(self.rows)
        self._scaling = self._find_scales()
        self._mix: Tensor | None = None

    def is_current(self) -> bool:
        """Whether the weights still lie in the memory that was given."""
        return self.rows.is_current()

    def __call__(self, mix: Tensor) -> None:
        """Write x = y + mix * (proj_Q(y) - y)      (eq. 11); ``mix`` is a float64 on the device."""
        if mix is not self._mix:
            self._mix, self._writing = mix, self._write(mix)
        for launch in self._scaling:
            launch()
        self._writing()

    def _find_scales(self) -> list[Launch]:
        """What leads from the weights to the sum and number of those that each row keeps."""
        scales = self._scales
        if isinstance(self.quantizer, Ternary):
            return _TernarySearch(self.rows, scales).launches()
        if isinstance(self.quantizer, TernaryThreshold):
            return [
                _sum_launch(self.rows, scales, scales.sums, scales.sum_counts),
                _sum_launch(self.rows, scales, scales.totals, scales.counts, self.quantizer.ratio),
            ]
        scales.totals, scales.counts = scales.sums, scales.sum_counts
        return [_sum_launch(self.rows, scales, scales.sums, scales.sum_counts)]

    def _write(self, mix: Tensor) -> Launch:
        rows, scales = self.rows, self._scales
        return Launch(
            write_relaxed,
            rows.num_chunks,
            (rows.x, *rows.table, rows.place_of_row, scales.sums, scales.totals, scales.counts,
             scales.cuts, mix, self.not_finite),
            BINARY=isinstance(self.quantizer, Binary),
            **rows.constants,
        )  # fmt: skip


class _Scales:
    """What is known of each row: the sum of all magnitudes, and of those that it keeps."""

    def __init__(self, rows: RowTable) -> None:
        self.sums = rows.zeros(rows.num_rows, torch.float64)
        self.sum_counts = rows.zeros(rows.num_rows, torch.int32)
        self.totals = rows.zeros(rows.num_rows, torch.float64)
        self.counts = rows.zeros(rows.num_rows, torch.int32)
        self.cuts = rows.zeros(rows.num_rows, torch.int32)
        self.partial_totals = rows.zeros(rows.num_chunks, torch.float64)
        self.partial_counts = rows.zeros(rows.num_chunks, torch.int32)


def _sum_launch(
    rows: RowTable, scales: _Scales, totals: Tensor, counts: Tensor, above: float = 0.0
) -> Launch:
    """The sums of all magnitudes, or of those >= above * mean."""
    return Launch(
        sum_magnitudes,
        rows.num_chunks,
        (*rows.table, rows.arrived, scales.sums, scales.partial_totals, scales.partial_counts,
         totals, counts, scales.cuts),
        ABOVE=above,
        **rows.constants,
    )  # fmt: skip


class _TernarySearch:
    """The launches of ``ternary_search``, and what they know of each row in between."""

    def __init__(self, rows: RowTable, scales: _Scales) -> None:
        self.rows, self.scales = rows, scales
        self.has_short_rows = rows.num_chunks == rows.num_rows
        self.log_bins = LOG_BINS_OF_SHORT_ROWS if self.has_short_rows else LOG_BINS
        self.ratios = torch.tensor(COARSE_RATIOS, dtype=torch.float64).to(rows.device)
        self.bins = rows.zeros(rows.num_rows << self.log_bins, torch.int64)
        self.bin_counts = rows.zeros(rows.num_rows << self.log_bins, torch.int64)
        num_sums, num_waiting = int(NUM_SUMS), rows.num_rows * int(DEPTH)
        self.partial = (
            rows.zeros(rows.num_chunks * num_sums, torch.float64),
            rows.zeros(rows.num_chunks * num_sums, torch.int32),
            rows.zeros(rows.num_chunks, torch.int32),
        )
        self.edges = (
            rows.zeros(rows.num_rows * num_sums, torch.int32),
            rows.zeros(rows.num_rows * num_sums, torch.float64),
            rows.zeros(rows.num_rows * num_sums, torch.int32),
        )
        self.best = (
            rows.zeros(rows.num_rows, torch.float64), scales.totals, scales.counts, scales.cuts,
        )  # fmt: skip
        self.waiting = (
            rows.zeros(rows.num_rows, torch.int32),
            rows.zeros(num_waiting, torch.int32),
            rows.zeros(num_waiting, torch.int32),
            rows.zeros(num_waiting, torch.float64),
            rows.zeros(num_waiting, torch.int32),
        )
        _sum_launch(rows, scales, scales.totals, scales.counts)()
        scales.totals *= 2 * FIRST_GUESS  # as if it were the scale of a step before

    def launches(self) -> list[Launch]:
        """The search, from the guess to the exact cuts; counting and searching take turns."""
        _, totals, counts, _ = self.best
        depths, lows, highs, *_ = self.waiting
        guess = (self.ratios, totals, counts, self.bins, *self.partial)
        around = (self.ratios, self.bins, *self.partial, *self.edges, self.scales.sums,
                  *self.best, *self.waiting)  # fmt: skip
        launches = [
            self._count(count_around_guess, guess),
            self._search(search_around_guess, around),
        ]
        narrow = (self.bins, self.bin_counts)
        for number in range(NUM_NARROWINGS):
            is_last = number == NUM_NARROWINGS - 1
            launches += [
                self._count(count_inside, (*narrow, depths, lows, highs)),
                self._search(
                    search_inside, (*narrow, *self.best, *self.waiting), UNTIL_DONE=is_last
                ),
            ]
        return launches

    def _count(self, kernel: object, arguments: tuple[Tensor, ...]) -> Launch:
        rows = self.rows
        return Launch(
            kernel, rows.num_chunks, (*rows.table, *arguments),
            LOG_BINS=self.log_bins, **rows.constants,
        )  # fmt: skip

    def _search(self, kernel: object, arguments: tuple[Tensor, ...], **constants: bool) -> Launch:
        rows = self.rows
        return Launch(
            kernel, rows.num_rows, (*rows.table, *arguments),
            num_warps=4 if self.has_short_rows else 8,
            **constants, LOG_BINS=self.log_bins, **rows.constants,
        )  # fmt: skip
