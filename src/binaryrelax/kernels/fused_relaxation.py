"""Relaxation of many weights in a handful of launches, without waiting for the device.

The fast twin of ``Quantizer.project`` and ``relax_`` for Binary, TernaryThreshold, TernaryAbsMean
and exact Ternary in float32, with one scale per layer, per channel or per short group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from binaryrelax.kernels.descent import (
    NO_DESCENT,
    NO_NUMBERS,
    Descent,
    DescentTables,
    addresses_of,
    is_aligned,
)
from binaryrelax.kernels.launch import Launch
from binaryrelax.kernels.magnitude_sums import sum_magnitudes
from binaryrelax.kernels.proximal_map import write_relaxed
from binaryrelax.kernels.row_table import Pair, RowTable, has_row_layout
from binaryrelax.kernels.short_rows import ShortRows, suits_short_rows
from binaryrelax.kernels.ternary_bins import NUM_SUMS, WINDOW, count_around_guess, count_inside
from binaryrelax.kernels.ternary_intervals import DEPTH
from binaryrelax.kernels.ternary_search import search_around_guess, search_inside
from binaryrelax.quantizers import (
    Binary,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
)

LOG_BINS, LOG_BINS_OF_SHORT_ROWS = 10, 8  # bins of a row, as a power of two
LONG_ON_AVERAGE = 1 << 13  # weights of a row, from which on its window is not larger than itself
MOST_WINDOWS = 1 << 10
LONGEST_WITHOUT_WINDOW = 1 << 20  # weights of a row: more could overflow the wide bins
MOST_IN_BINS = (1 << 25) - 1  # weights of a row: more could overflow a bin
# Edges around the guess of a ternary cut, in units of it; 0 and 1 stand for those known otherwise.
COARSE_RATIOS = (0.0, 0.5, 0.8, 0.93, 1.0, 1.0, 1.07, 1.22, 1.6, 3.0, 10.0)
MOST_DESCENTS = 32  # kept for the next step, by where their gradients are
FIRST_GUESS = 0.77  # of the mean magnitude: where the cut of normal weights lies


def is_fusible(x: Tensor, y: Tensor, quantizer: Quantizer) -> bool:
    """Whether the kernels can do this weight; others take the reference."""
    known = type(quantizer) in (Binary, TernaryThreshold, TernaryAbsMean, Ternary)
    plain = x.dtype == y.dtype == torch.float32 and type(y) is Tensor
    if not (known and plain):
        return False
    pair = Pair(x, y, quantizer.granularity)
    if not has_row_layout(x, y, pair.granularity):
        return suits_short_rows(pair)
    return pair.row_length <= MOST_IN_BINS or not isinstance(quantizer, Ternary)


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
        is_grouped = isinstance(quantizer.granularity, PerGroup)
        of_rows = (
            PerLayer() if is_grouped else quantizer.granularity
        )  # groups are cut in the kernel
        self.rows = RowTable(
            [Pair(x, y, of_rows) for x, y in pairs],
            list(range(len(pairs))) if places is None else places,
        )
        if not_finite is None:
            not_finite = self.rows.zeros(len(pairs), torch.bool)
        self.not_finite = not_finite
        self._tables = DescentTables(self.rows)
        if is_grouped:
            self._launches: ShortRows | LongRows = ShortRows(quantizer, self.rows, not_finite)
        else:
            self._launches = LongRows(quantizer, self.rows, not_finite, self._tables.none)
        self._descents: dict[tuple[int, ...], Launch] = {}
        self._captured: list[Launch] = []  # a graph goes on to use what they hold
        self._kinds: set[int] = set()  # of descents whose kernels are compiled
        self._mix: Tensor | None = None

    def is_current(self) -> bool:
        """Whether the weights still lie in the memory that was given."""
        return self.rows.is_current()

    def has_compiled(self, descent: Descent) -> bool:
        """Whether a step of this kind has been taken before."""
        return descent.kind in self._kinds

    def __call__(self, mix: Tensor, descent: Descent | None = None) -> None:
        """Write x = y + mix * (proj_Q(y) - y)      (eq. 11); ``mix`` is a float64 on the device.

        With ``descent``, y takes this step before (eq. 10).
        """
        if mix is not self._mix:
            self._read_mix_from(mix)
        if descent is None:
            self._first(*NO_NUMBERS)
        else:
            if descent.step_counts:
                torch._foreach_add_(descent.step_counts, 1)
            self._descending(mix, descent)(*descent.numbers)
            self._kinds.add(descent.kind)
        for launch in self._following:
            launch()

    def _read_mix_from(self, mix: Tensor) -> None:
        self._mix = mix
        self._first = self._launches.first(mix, self._tables.none, NO_DESCENT, is_aligned=True)
        self._following = self._launches.following(mix)
        self._descents.clear()

    def _descending(self, mix: Tensor, descent: Descent) -> Launch:
        """The first launch with a step in it; gradients mostly are where they were before."""
        if self._tables.is_capturing():  # the graph must fill its own table when it is replayed
            self._captured.append(self._new_descending(mix, descent))
            return self._captured[-1]
        key = (*addresses_of(descent), descent.kind)
        if key not in self._descents:
            if len(self._descents) == MOST_DESCENTS:
                self._descents.clear()
            self._descents[key] = self._new_descending(mix, descent)
        return self._descents[key]

    def _new_descending(self, mix: Tensor, descent: Descent) -> Launch:
        arguments = self._tables.arguments(descent)
        return self._launches.first(mix, arguments, descent.kind, is_aligned=is_aligned(descent))


class LongRows:
    """The launches for rows of any length, whose chunks meet to find their scales.

    Args:
        quantizer: of all weights.
        rows: of all weights, one for each scale.
        not_finite: flags that are raised for weights that are not finite.
        none: arguments of a launch that takes no step.
    """

    def __init__(
        self, quantizer: Quantizer, rows: RowTable, not_finite: Tensor, none: tuple[Tensor, ...]
    ) -> None:
        self.quantizer, self.rows, self.not_finite = quantizer, rows, not_finite
        self.scales, self.none = _Scales(rows), none
        is_searched = isinstance(quantizer, Ternary)
        self.search = _TernarySearch(rows, self.scales, none) if is_searched else None

    def first(
        self, mix: Tensor, arguments: tuple[Tensor, ...], kind: int, *, is_aligned: bool
    ) -> Launch:
        """The launch that reads y, which may move before."""
        if self.search is not None:
            return self.search.count_around_guess(arguments, kind)
        is_absmean = isinstance(self.quantizer, TernaryAbsMean)
        return _sum_launch(
            self.rows, self.scales, arguments,
            DESCENT=kind, ABSMEAN=is_absmean, ALIGNED=is_aligned,
        )  # fmt: skip

    def following(self, mix: Tensor) -> list[Callable[[], None]]:
        """What leads on to the scales, and writes x."""
        return [*self._find_scales(), self._write(mix)]

    def _find_scales(self) -> list[Callable[[], None]]:
        """What leads on to the sum and number of the weights that each row keeps."""
        scales = self.scales
        if self.search is not None:
            return self.search.launches()
        if isinstance(self.quantizer, TernaryThreshold):
            ratio = self.quantizer.ratio
            above = _sum_launch(self.rows, scales, self.none, DESCENT=NO_DESCENT, ABOVE=ratio)
            return [partial(above, *NO_NUMBERS)]
        scales.totals, scales.counts = scales.sums, scales.sum_counts
        return []

    def _write(self, mix: Tensor) -> Launch:
        rows, scales = self.rows, self.scales
        return Launch(
            write_relaxed,
            rows.num_chunks,
            (rows.x, *rows.table, rows.place_of_row, scales.sums, scales.totals, scales.counts,
             scales.cuts, mix, self.not_finite),
            BINARY=isinstance(self.quantizer, Binary),
            BACKWARDS=isinstance(self.quantizer, TernaryThreshold),  # the second sum went forwards
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
        self.partial_largest = rows.zeros(rows.num_chunks, torch.int32)
        self.partial_smallest = rows.zeros(rows.num_chunks, torch.int32)


def _sum_launch(
    rows: RowTable, scales: _Scales, arguments: tuple[Tensor, ...],
    *, DESCENT: int, ABOVE: float = 0.0, ABSMEAN: bool = False, ALIGNED: bool = True,
) -> Launch:  # fmt: skip
    """The sums of all magnitudes, or of those >= ABOVE * mean."""
    totals = (scales.totals, scales.counts) if ABOVE else (scales.sums, scales.sum_counts)
    return Launch(
        sum_magnitudes,
        rows.num_chunks,
        (*rows.table, rows.arrived, scales.sums, scales.partial_totals, scales.partial_counts,
         scales.partial_largest, scales.partial_smallest, *totals, scales.cuts, *arguments),
        ABOVE=ABOVE,
        ABSMEAN=ABSMEAN,
        DESCENT=DESCENT,
        BACKWARDS=ABOVE == 0,  # the optimizer went forwards, as every other launch does
        CHUNK=rows.chunk_size,
        ALIGNED=rows.is_aligned and ALIGNED,
    )  # fmt: skip


class _TernarySearch:
    """The launches of ``ternary_search``, and what they know of each row in between."""

    def __init__(self, rows: RowTable, scales: _Scales, none: tuple[Tensor, ...]) -> None:
        self.rows, self.scales = rows, scales
        self.is_windowed = _are_long(rows)
        self.log_bins = LOG_BINS if self.is_windowed else LOG_BINS_OF_SHORT_ROWS
        self.ratios = torch.tensor(COARSE_RATIOS, dtype=torch.float64, device=rows.device)
        self.bins = rows.zeros(rows.num_rows << self.log_bins, torch.int64)
        self.bin_counts = rows.zeros(rows.num_rows << self.log_bins, torch.int64)
        self.window = rows.zeros(
            rows.num_rows * int(WINDOW) if self.is_windowed else 1, torch.int64
        )
        num_sums, num_waiting = int(NUM_SUMS), rows.num_rows * int(DEPTH)
        self.partial = (
            rows.zeros(rows.num_chunks * num_sums + 1, torch.float64),  # also read one further
            rows.zeros(rows.num_chunks, torch.int32),
            rows.zeros(rows.num_chunks, torch.int32),
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
        _sum_launch(rows, scales, none, DESCENT=NO_DESCENT)(*NO_NUMBERS)
        # As if it were the scale of a step before.
        scales.totals.copy_(scales.sums * (2 * FIRST_GUESS))
        scales.counts.copy_(scales.sum_counts)

    def count_around_guess(self, arguments: tuple[Tensor, ...], kind: int) -> Launch:
        """Where the search begins."""
        _, totals, counts, _ = self.best
        guess = (self.ratios, totals, counts, self.bins, self.window, *self.partial)
        return self._count(
            count_around_guess, (*guess, *arguments),
            WINDOWED=self.is_windowed, DESCENT=kind, BACKWARDS=True,
        )  # fmt: skip

    def launches(self) -> list[Callable[[], None]]:
        """What follows, until the cuts are exact; counting and searching take turns."""
        depths, lows, highs, *_ = self.waiting
        around = (self.ratios, self.bins, self.window, *self.partial,
                  self.scales.sums, *self.best, *self.waiting)  # fmt: skip
        narrow = (self.bins, self.bin_counts)
        return [
            self._search(search_around_guess, around, WINDOWED=self.is_windowed),
            self._count(count_inside, (*narrow, depths, lows, highs), BACKWARDS=False),
            self._search(search_inside, (*narrow, *self.best, *self.waiting)),
        ]

    def _count(self, kernel: object, arguments: tuple[Tensor, ...], **constants: int) -> Launch:
        rows = self.rows
        return Launch(
            kernel, rows.num_chunks, (*rows.table, *arguments),
            **constants, LOG_BINS=self.log_bins, **rows.constants,
        )  # fmt: skip

    def _search(self, kernel: object, arguments: tuple[Tensor, ...], **constants: bool) -> Launch:
        rows = self.rows
        return Launch(
            kernel, rows.num_rows, (*rows.table, *arguments),
            num_warps=8 if self.is_windowed else 4,
            **constants, LOG_BINS=self.log_bins, **rows.constants,
        )  # fmt: skip


def _are_long(rows: RowTable) -> bool:
    """Whether rows are few and long, so that each can have a window of narrow bins."""
    if max(rows.lengths) > LONGEST_WITHOUT_WINDOW:
        return True
    is_long = sum(rows.lengths) >= LONG_ON_AVERAGE * rows.num_rows
    return is_long and rows.num_rows <= MOST_WINDOWS
