"""The picture of the README: curves on the left, weights on their way into Q on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import MaxNLocator, MultipleLocator

from binaryrelax_lab.files import write_atomically
from binaryrelax_lab.report.drawing import COLOURS, INK, QUIET, SHADE, figure_bytes, quieten
from binaryrelax_lab.report.epoch_chart import Chart, chart_of, tick_step
from binaryrelax_lab.report.weight_panels import WeightPanel, panels_of, tallest_share
from binaryrelax_lab.results import RunResult

SIZE_INCHES, DOTS_PER_INCH = (16, 7), 100


def write_picture(path: Path, runs: Sequence[RunResult]) -> None:
    """Draws the picture and writes it as a PNG file of few colours."""
    write_atomically(path, picture_bytes([[run] for run in runs]))


def picture_bytes(groups: Sequence[Sequence[RunResult]]) -> bytes:
    """The content of that file: the same runs give the same bytes.

    Each group is one method with several seeds; the histograms are those of its first, if there.
    """
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, facecolor="white")
    halves = figure.add_gridspec(
        1, 2, width_ratios=(1.15, 1), left=0.05, right=0.985, top=0.88, bottom=0.17, wspace=0.1
    )
    _draw_curves(figure.add_subplot(halves[0]), groups)
    relaxed = [group[0] for group in groups if group[0].recipe.is_relaxed]
    _draw_histograms(figure, halves[1], relaxed)
    return figure_bytes(figure)


def _draw_curves(axes: Axes, groups: Sequence[Sequence[RunResult]]) -> None:
    """Test accuracy by epoch, the mean over seeds, with the phases as shades."""
    chart = chart_of(groups)
    # Bands around five curves would hide them; without, the axis need not hold the limits.
    means = [replace(curve, low=curve.values, high=curve.values) for curve in chart.curves]
    chart = replace(chart, curves=means)
    low, high = chart.value_range
    _draw_phases(axes, chart)
    for curve in chart.curves:
        epochs, colour = range(1, len(curve.values) + 1), COLOURS[curve.method]
        style = "--" if curve.method in ("bwn", "twn") else "-"
        name = f"{curve.label}  {curve.values[-1]:.2f} %"
        axes.plot(epochs, curve.values, style, color=colour, lw=2.4, marker="o", ms=4, label=name)
    axes.set(xlim=(0.6, chart.num_epochs + 0.4), ylim=(low, high))
    seeds = "" if len(groups[0]) == 1 else f"; mean of {len(groups[0])} seeds"
    heading = f"Test accuracy in percent, by epoch{seeds}"
    axes.set_title(heading, loc="left", fontsize=15, color=INK, pad=28)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=3, frameon=False, fontsize=13,
        labelcolor=INK,
    )  # fmt: skip
    axes.yaxis.set_major_locator(MultipleLocator(tick_step(high - low)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    quieten(axes)
    axes.tick_params(labelsize=12)


def _draw_phases(axes: Axes, chart: Chart) -> None:
    """Phase II as a shade, and above both their names, with the λ that Phase I reaches."""
    border, end = chart.phase_two_epoch, chart.num_epochs + 0.4
    axes.axvspan(border, end, color=SHADE, lw=0)
    reached = f": λ grows to {max(chart.strengths):.0f}" if chart.strengths else ""
    places = {f"Phase I{reached}": (1 + border) / 2, "Phase II: λ = ∞": (border + end) / 2}
    for text, x in places.items():
        axes.annotate(
            text, (x, 1.012), xycoords=("data", "axes fraction"), ha="center", color=QUIET, size=12
        )


def _draw_histograms(figure: Figure, place: SubplotSpec, runs: Sequence[RunResult]) -> None:
    """Three moments of each network that has histograms: float, Phase I, Q."""
    columns = [(run, panels_of(run.histograms)) for run in runs if run.histograms]
    top = 1.3 * np.sqrt(tallest_share(panels for _, panels in columns))
    grid = place.subgridspec(3, max(1, len(columns)), hspace=0.5, wspace=0.12)
    for column, (run, panels) in enumerate(columns):
        for row, panel in enumerate((panels[0], _middle(panels), panels[-1])):
            axes = figure.add_subplot(grid[row, column])
            _draw_histogram(axes, panel, COLOURS[run.method])
            axes.set_ylim(0, top)
            if row == 0:
                axes.annotate(
                    f"Weights, {run.label}", (0, 1.3), xycoords="axes fraction", size=15, color=INK
                )


def _middle(panels: Sequence[WeightPanel]) -> WeightPanel:
    """A moment in the first half of Phase I, where the peaks are growing."""
    relaxed = [panel for panel in panels if panel.snapshot.phase == 1]
    return relaxed[len(relaxed) // 3] if relaxed else panels[len(panels) // 2]


def _draw_histogram(axes: Axes, panel: WeightPanel, colour: str) -> None:
    heights = np.sqrt(panel.shares)
    axes.bar(panel.centres, heights, width=panel.histograms.bin_width, color=colour)
    for mark in panel.marks:
        if mark.text:
            axes.annotate(
                mark.text, (mark.code, np.sqrt(mark.share)), ha="center", va="bottom",
                color=INK, size=11, xytext=(0, 2), textcoords="offset points",
            )  # fmt: skip
    axes.set_xticks([mark.code for mark in panel.marks], [mark.name for mark in panel.marks])
    axes.set(yticks=[], xlim=(-3, 3))
    axes.set_title(panel.caption, loc="left", fontsize=11.5, color=QUIET, pad=4)
    quieten(axes)
    axes.tick_params(labelsize=12)
