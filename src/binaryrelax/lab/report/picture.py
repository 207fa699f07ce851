"""The picture of the README: curves on the left, weights on their way into Q on the right."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import MaxNLocator, MultipleLocator

from binaryrelax.lab.drawing import COLOURS, INK, QUIET, SHADE, figure_bytes, quieten
from binaryrelax.lab.engine import write_atomically
from binaryrelax.lab.report.chart import accuracy_range, tick_step
from binaryrelax.lab.report.curves import chart_of
from binaryrelax.lab.report.panels import caption, tallest_share
from binaryrelax.lab.report.runs import FinishedRun

SIZE_INCHES, DOTS_PER_INCH = (16, 7), 100


def write_picture(path: Path, runs: list[FinishedRun]) -> None:
    """Draws the picture and writes it as a PNG file of few colours."""
    write_atomically(path, picture_bytes([[run] for run in runs]))


def picture_bytes(groups: list[list[FinishedRun]]) -> bytes:
    """The content of that file: the same runs give the same bytes.

    Each group is one method with several seeds; the histograms are those of its first, if there.
    """
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, facecolor="white")
    left, right = figure.add_gridspec(
        1, 2, width_ratios=(1.15, 1), left=0.05, right=0.985, top=0.88, bottom=0.17, wspace=0.1
    )
    _draw_curves(figure.add_subplot(left), groups)
    relaxed = [group[0] for group in groups if group[0].is_relaxed]
    _draw_histograms(figure, right, [run for run in relaxed if run.histograms])
    return figure_bytes(figure)


def _draw_curves(axes: Axes, groups: list[list[FinishedRun]]) -> None:
    """Test accuracy by epoch, the mean over seeds, with the phases as shades."""
    chart = chart_of(groups)
    # Bands around five curves would hide them; without, the axis need not hold the limits.
    means = [replace(curve, low=curve.values, high=curve.values) for curve in chart.curves]
    chart = replace(chart, curves=means)
    num_epochs, border = chart.num_epochs, chart.phase_two_epoch
    low, high = accuracy_range(chart)
    axes.axvspan(border, num_epochs + 0.4, color=SHADE, lw=0)
    for curve in chart.curves:
        epochs, colour = range(1, len(curve.values) + 1), COLOURS[curve.method]
        style = "--" if curve.method in ("bwn", "twn") else "-"
        name = f"{curve.label}  {curve.values[-1]:.2f} %"
        axes.plot(epochs, curve.values, style, color=colour, lw=2.4, marker="o", ms=4, label=name)
    axes.set(
        xlim=(0.6, num_epochs + 0.4),
        ylim=(low, high),
    )
    seeds = "" if len(groups[0]) == 1 else f"; mean of {len(groups[0])} seeds"
    heading = f"Test accuracy in percent, by epoch{seeds}"
    axes.set_title(heading, loc="left", fontsize=15, color=INK, pad=28)
    phase_one, phase_two = (1 + border) / 2, (border + num_epochs + 0.4) / 2
    for x, text in ((phase_one, _phase_one_text(chart.strengths)), (phase_two, "Phase II: λ = ∞")):
        axes.annotate(
            text, (x, 1.012), xycoords=("data", "axes fraction"), ha="center", color=QUIET, size=12
        )
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=3, frameon=False, fontsize=13,
        labelcolor=INK,
    )  # fmt: skip
    axes.yaxis.set_major_locator(MultipleLocator(tick_step(high - low)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    quieten(axes)
    axes.tick_params(labelsize=12)


def _phase_one_text(strengths: list[float] | None) -> str:
    """Phase I with the λ it reaches."""
    return f"Phase I: λ grows to {max(strengths):.0f}" if strengths else "Phase I"


def _draw_histograms(figure: Figure, place: SubplotSpec, runs: list[FinishedRun]) -> None:
    """Three snapshots of each relaxed network: float, Phase I, Q."""
    grid = place.subgridspec(3, max(1, len(runs)), hspace=0.5, wspace=0.12)
    for column, run in enumerate(runs):
        snapshots = run.histograms["snapshots"]
        for row, snapshot in enumerate((snapshots[0], _middle(snapshots), snapshots[-1])):
            axes = figure.add_subplot(grid[row, column])
            _draw_histogram(axes, run, snapshot, tallest_share(runs))
            if row == 0:
                axes.annotate(
                    f"Weights, {run.label}", (0, 1.3), xycoords="axes fraction", size=15, color=INK
                )


def _middle(snapshots: list[dict[str, Any]]) -> dict[str, Any]:
    """A snapshot from the first half of Phase I, where the peaks are growing."""
    relaxed = [s for s in snapshots if s["phase"] == 1]
    return relaxed[len(relaxed) // 3] if relaxed else snapshots[len(snapshots) // 2]


def _draw_histogram(axes: Axes, run: FinishedRun, snapshot: dict[str, Any], tallest: float) -> None:
    histograms = run.histograms
    width = histograms["bin_width"]
    shares = np.array(snapshot["counts"]) / histograms["num_weights"]
    centres = histograms["first_centre"] + width * np.arange(len(shares))
    axes.bar(centres, np.sqrt(shares), width=width, color=COLOURS[run.method])
    for code in histograms["codebook"]:
        share = shares[np.argmin(abs(centres - code))]
        if share > 0.1:
            axes.annotate(
                f"{100 * share:.0f} %", (code, np.sqrt(share)), ha="center", va="bottom",
                color=INK, size=11, xytext=(0, 2), textcoords="offset points",
            )  # fmt: skip
    names = {-1: "−s", 0: "0", 1: "+s"}
    codes = histograms["codebook"]
    axes.set_xticks(codes, [names.get(code, f"{code:+g}s") for code in codes])
    axes.set(ylim=(0, 1.3 * np.sqrt(tallest)), yticks=[], xlim=(-3, 3))
    axes.set_title(caption(snapshot), loc="left", fontsize=11.5, color=QUIET, pad=4)
    quieten(axes)
    axes.tick_params(labelsize=12)
