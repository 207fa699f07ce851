"""How often each method ends in the best minimizer, and how many minimizers there are."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from binaryrelax.lab.drawing import COLOURS, GRID, INK, QUIET, label, panels, title
from binaryrelax.lab.theory.drawing.methods import colour_of


def draw_local_minima(data: dict[str, Any]) -> Figure:
    """A panel for each case, a row for each method, with 95 % intervals."""
    figure, places = panels(2, 3, size=(15, 9), sharey=True)
    for axes, case in zip(places, data["cases"], strict=True):
        _draw_case(axes, case)
    for axes in places[3:]:
        label(axes, x=f"ends in the best of all minimizers, {data['starts']:,} starts")
    return figure


def _draw_case(axes: Axes, case: dict[str, Any]) -> None:
    names = [record["method"] for record in case["methods"]]
    for row, record in enumerate(case["methods"]):
        colour = colour_of(record["method"])
        axes.plot([record["low"], record["high"]], [row, row], color=colour, lw=3, alpha=0.35)
        axes.plot(record["best"], row, "o", color=colour, ms=9)
        axes.annotate(
            f"{100 * record['best']:.1f} %", (record["high"], row), xytext=(8, -4),
            textcoords="offset points", color=INK, size=10.5,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 0.72)
    axes.xaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelcolor=INK, labelsize=11.5)
    name = case["name"][0].upper() + case["name"][1:]
    title(axes, f"{name}\n{case['lines']:,} minimizers")


def draw_relaxed_minima(data: dict[str, Any]) -> Figure:
    """The number of local minimizers of eq. 9 by λ, between those of f and those on Q."""
    figure, [axes] = panels(1, 1, size=(8.6, 4.8))
    records = data["by_strength"]
    strengths = [r["strength"] for r in records]
    axes.fill_between(
        strengths, [r["least"] for r in records], [r["most"] for r in records],
        color=COLOURS["binary"], alpha=0.15, lw=0,
    )  # fmt: skip
    axes.plot(strengths, [r["mean"] for r in records], color=COLOURS["binary"], lw=2.4)
    axes.axhline(data["lines"], color=QUIET, lw=1.2, ls="--")
    axes.annotate(
        f"on Q: {data['lines']}, one a line", (strengths[0], data["lines"]), xytext=(2, -16),
        textcoords="offset points", color=QUIET, size=11,
    )  # fmt: skip
    axes.set(xscale="log", ylim=(0, 1.06 * data["lines"]))
    title(axes, "Local minimizers of the relaxed objective f + λ/2 dist(x, Q)²")
    label(axes, x=f"λ  (binary weights, n = {data['weights']}, f convex; L = 1)")
    return figure
