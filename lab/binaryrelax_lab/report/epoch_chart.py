"""Accuracy or loss epoch by epoch, with both phases and λ: what is drawn, and where in an SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from statistics import fmean

from binaryrelax_lab.results import TrainingResult

LEFT, RIGHT_MARGIN = 46, 14
TICK_STEPS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
EPOCH_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200)
MOST_DOTS = 40  # epochs; with more of them a line says enough
LONG = 60  # epochs; a longer run may leave its first ones below the chart
Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """Scores of one method by epoch; with several seeds the mean, and the limits around it.

    Args:
        projected: the score if the weights were made hard, where it was measured and differs.
    """

    method: str
    label: str
    values: list[float]
    low: list[float]
    high: list[float]
    projected: list[float | None]
    num_seeds: int

    def as_json(self) -> dict[str, object]:
        """What a script reads aloud; limits only where there are any."""
        content: dict[str, object] = {
            "method": self.method,
            "label": self.label,
            "values": self.values,
        }
        if self.num_seeds > 1:
            content |= {"low": self.low, "high": self.high, "seeds": self.num_seeds}
        if any(value is not None for value in self.projected):
            last = max(i for i, value in enumerate(self.projected) if value is not None)
            content["hard"] = self.projected[: last + 1]
        return content


@dataclass(frozen=True)
class Chart:
    """Curves over the same epochs.

    Args:
        strengths: λ at the end of each epoch of Phase I; None without a BinaryRelax among them.
        is_less_better: whether they are of losses, in nats; else of accuracies, in percent.
    """

    curves: list[Curve]
    strengths: list[float] | None
    phase_two_epoch: int
    is_less_better: bool = False

    @property
    def unit(self) -> str:
        """What follows a value."""
        return "" if self.is_less_better else " %"

    @property
    def measure(self) -> str:
        """What the curves are of."""
        return "Validation loss" if self.is_less_better else "Test accuracy"

    @property
    def num_epochs(self) -> int:
        """Those of the longest curve."""
        return max(len(curve.values) for curve in self.curves)

    @property
    def value_range(self) -> tuple[float, float]:
        """Limits that hold all curves but the first epochs of long ones; the lower is a tick."""
        return self._range_of_losses() if self.is_less_better else self._range_of_accuracies()

    def _range_of_losses(self) -> tuple[float, float]:
        highest = sorted((value for curve in self.curves for value in curve.high), reverse=True)
        high = highest[len(highest) // 8 if self.num_epochs > LONG else 0]
        low = min(min(curve.low) for curve in self.curves)
        step = tick_step(max(high - low, TICK_STEPS[0]))
        return math.floor(low / step) * step, max(high, low + step)

    def _range_of_accuracies(self) -> tuple[float, float]:
        lowest = sorted(value for curve in self.curves for value in curve.low)
        low = lowest[len(lowest) // 33 if self.num_epochs > LONG else 0]
        high = min(100.0, math.ceil(max(max(curve.high) for curve in self.curves) + 0.5))
        low = min(low, high - 1)  # curves that never leave 100 % need some room too
        step = tick_step(high - low)
        return math.floor(low / step) * step, high

    def as_json(self) -> dict[str, object]:
        """The data of a chart for the script that reads values under the cursor."""
        return {
            "strengths": self.strengths and [float(f"{s:.3g}") for s in self.strengths],
            "curves": [curve.as_json() for curve in self.curves],
            "unit": self.unit,
        }


def chart_of(groups: Sequence[Sequence[TrainingResult]]) -> Chart:
    """The chart with one curve for each group of runs, which differ in their seeds."""
    runs = [run for group in groups for run in group]
    relaxed = next((run for run in runs if run.recipe.grows_geometrically), None)
    return Chart(
        curves=[curve_of(group) for group in groups],
        strengths=relaxed.finite_strengths if relaxed else None,
        phase_two_epoch=runs[0].recipe.phase_two_epoch,
        is_less_better=runs[0].IS_LESS_BETTER,
    )


def curve_of(runs: Sequence[TrainingResult]) -> Curve:
    """The curve of runs that differ in their seeds; of several with the same seed the mean."""
    digits = 3 if runs[0].IS_LESS_BETTER else 2
    epochs = _by_epoch((run.seed, [record.score for record in run.epochs]) for run in runs)
    hard = _by_epoch((run.seed, _projected(run)) for run in runs)
    return Curve(
        method=runs[0].method,
        label=runs[0].label,
        values=[round(fmean(values), digits) for values in epochs],
        low=[round(min(values), digits) for values in epochs],
        high=[round(max(values), digits) for values in epochs],
        projected=[round(fmean(values), digits) if values else None for values in hard],
        num_seeds=len({run.seed for run in runs}),
    )


def tick_step(span: float) -> float:
    """The smallest round step that makes at most seven ticks."""
    return next((step for step in TICK_STEPS if span / step <= 6), TICK_STEPS[-1])


def _by_epoch(curves: Iterable[tuple[int, Sequence[float | None]]]) -> list[list[float]]:
    """For each epoch the values of all seeds that have one."""
    seeds: dict[int, list[Sequence[float | None]]] = {}
    for seed, values in curves:
        seeds.setdefault(seed, []).append(values)
    means = [
        [fmean(values) if values else None for values in map(_present, zip_longest(*same))]
        for same in seeds.values()
    ]
    return [_present(values) for values in zip_longest(*means)]


def _projected(run: TrainingResult) -> list[float | None]:
    return [record.score_projected if record.phase == 1 else None for record in run.epochs]


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True)
class Layout:
    """Where things are, in pixels of the drawing; without room for λ, that part is left out."""

    width: int
    top: int
    bottom: int
    strength_top: int | None
    strength_bottom: int
    height: int

    left: int = LEFT

    @property
    def right(self) -> int:
        """The end of the panels."""
        return self.width - RIGHT_MARGIN


WIDE = Layout(960, 30, 300, 340, 420, 456)
NARROW = Layout(380, 30, 300, 340, 420, 456)
HALF = Layout(440, 26, 196, 228, 276, 312)
SMALL = Layout(440, 22, 132, None, 132, 166)


@dataclass(frozen=True)
class ChartDrawing:
    """A chart in a layout: what a template needs to draw it as an SVG.

    Args:
        name: a word that no other drawing on the page has (for its clip path).
    """

    chart: Chart
    layout: Layout
    name: str

    @cached_property
    def across(self) -> Axis:
        """Epochs trained, onto x."""
        return Axis(1, max(self.chart.num_epochs, 2), LEFT + 12, self.layout.right - 8)

    @cached_property
    def up(self) -> Axis:
        """Scores, onto y."""
        return Axis(*self.chart.value_range, self.layout.bottom, self.layout.top + 6)

    @cached_property
    def strength_up(self) -> Axis:
        """Powers of ten of λ, onto y; infinity is above."""
        low, high = math.floor(min([0.0, *self.powers])), max([1.0, *self.powers])
        return Axis(low, high, self.layout.strength_bottom, (self.layout.strength_top or 0) + 14)

    @property
    def powers(self) -> list[float]:
        """λ after each epoch of Phase I, as a power of ten."""
        return [math.log10(max(strength, 1e-3)) for strength in self.chart.strengths or []]

    @property
    def border(self) -> float:
        """Where Phase II begins; at an end of the drawing if a phase has no epochs."""
        return min(self.layout.right, max(LEFT, self.across(self.chart.phase_two_epoch)))

    @property
    def value_ticks(self) -> list[float]:
        """Round scores, from the lower end of the range on."""
        low, span = self.up.low, self.up.high - self.up.low
        step = tick_step(span)
        return [round(low + step * i, 2) for i in range(int(span / step) + 1)]

    @property
    def epoch_ticks(self) -> range:
        """As many as have room."""
        most, num_epochs = self.layout.width / 68, self.chart.num_epochs
        every = next((s for s in EPOCH_STEPS if num_epochs / s <= most), EPOCH_STEPS[-1])
        return range(every, num_epochs + 1, every)

    def line(self, values: Sequence[float], up: Axis) -> str:
        """The points of a polyline."""
        return " ".join(f"{x:g},{y:g}" for x, y in self._points(values, up))

    def band(self, curve: Curve) -> str:
        """The points around the area between the limits of a curve."""
        back = self._points(curve.high, self.up)[::-1]
        return f"{self.line(curve.low, self.up)} {' '.join(f'{x:g},{y:g}' for x, y in back)}"

    def dots(self, values: Sequence[float], up: Axis) -> list[Point]:
        """The points that are shown as such: all, if they are few."""
        return self._points(values, up) if len(values) <= MOST_DOTS else []

    def _points(self, values: Sequence[float], up: Axis) -> list[Point]:
        return [(self.across(epoch), up(value)) for epoch, value in enumerate(values, 1)]
