"""The picture of the README: curves on the left, weights on their way into Q on the right."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import MaxNLocator, MultipleLocator
from PIL import Image

from binaryrelax.lab.engine import write_atomically
from binaryrelax.lab.report.chart import accuracy_range, tick_step
from binaryrelax.lab.report.curves import chart_of
from binaryrelax.lab.report.panels import caption, tallest_share
from binaryrelax.lab.report.runs import FinishedRun

COLOURS = {
    "float": "#4b5563",
    "bwn": "#6aa9e9",
    "binary": "#1d4ed8",
    "twn": "#f0a35e",
    "ternary": "#c2410c",
    "ternary-exact": "#7c3aed",
}
INK, QUIET = "#1f2933", "#6b7280"
SIZE_INCHES, DOTS_PER_INCH = (16, 7), 100


def write_picture(path: Path, runs: list[FinishedRun]) -> None:
    """Draws the picture and writes it as a PNG file of few colours."""
    write_atomically(path, picture_bytes(runs))


def picture_bytes(runs: list[FinishedRun]) -> bytes:
    """The content of that file: the same runs give the same bytes."""
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, facecolor="white")
    left, right = figure.add_gridspec(
        1, 2, width_ratios=(1.15, 1), left=0.05, right=0.985, top=0.88, bottom=0.17, wspace=0.1
    )
    _draw_curves(figure.add_subplot(left), runs)
    _draw_histograms(figure, right, [run for run in runs if run.is_relaxed])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    content = io.BytesIO()
    image.quantize(128, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()


def _draw_curves(axes: Axes, runs: list[FinishedRun]) -> None:
    """Test accuracy by epoch, with the phases as shades."""
    chart = chart_of([[run] for run in runs])
    num_epochs, border = chart.num_epochs, chart.phase_two_epoch
    low, high = accuracy_range(chart)
    axes.axvspan(border, num_epochs + 0.4, color="#f1f0ea", lw=0)
    for run in runs:
        style = "--" if run.method in ("bwn", "twn") else "-"
        name = f"{run.label}  {run.accuracies[-1]:.2f} %"
        axes.plot(
            range(1, len(run.accuracies) + 1),
            run.accuracies,
            style,
            color=COLOURS[run.method],
            lw=2.4,
            marker="o",
            ms=4,
            label=name,
        )
    axes.set(
        xlim=(0.6, num_epochs + 0.4),
        ylim=(low, high),
    )
    axes.set_title("Test accuracy in percent, by epoch", loc="left", fontsize=15, color=INK, pad=28)
    phase_one, phase_two = (1 + border) / 2, (border + num_epochs + 0.4) / 2
    for x, text in ((phase_one, _phase_one_text(runs)), (phase_two, "Phase II: λ = ∞")):
        axes.annotate(
            text, (x, 1.012), xycoords=("data", "axes fraction"), ha="center", color=QUIET, size=12
        )
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=3, frameon=False, fontsize=13,
        labelcolor=INK,
    )  # fmt: skip
    axes.yaxis.set_major_locator(MultipleLocator(tick_step(high - low)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _quieten(axes)


def _phase_one_text(runs: list[FinishedRun]) -> str:
    """Phase I with the λ it reaches."""
    finite = [strength for run in runs if run.is_relaxed for strength in run.finite_strengths]
    return f"Phase I: λ grows to {max(finite):.0f}" if finite else "Phase I"


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
    _quieten(axes)


def _quieten(axes: Axes) -> None:
    """Takes away the frame and dims the ticks."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#c9ccd1")
    axes.tick_params(colors=QUIET, labelsize=12, length=0)
    axes.grid(axis="y", color="#e5e7eb", lw=0.8)
    axes.set_axisbelow(True)
