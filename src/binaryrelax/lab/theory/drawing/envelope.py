"""The envelope along a run, eq. 10 with λ held fixed, and the Hamilton-Jacobi equation."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryrelax.lab.drawing import COLOURS, INK, QUIET, SHADE, label, legend, panels, title

LOSS, ENVELOPE, SUM = COLOURS["float"], COLOURS["ternary"], COLOURS["binary"]
TIME_COLOURS = ("#1d4ed8", "#6aa9e9", "#7c3aed")


def draw_envelope(data: dict[str, Any]) -> Figure:
    """A run with growing λ on the left, λ held fixed on the right."""
    figure, (left, right) = panels(1, 2, size=(13, 5))
    _draw_run(left, data["run"])
    _draw_fixed(right, data["fixed"])
    return figure


def _draw_run(axes: Axes, data: dict[str, Any]) -> None:
    records = data["records"]
    steps = [r["step"] for r in records]
    axes.axvspan(data["phase_one"] + 0.5, steps[-1], color=SHADE, lw=0)
    relaxed = records[: data["phase_one"] + 1]
    curves = (
        ("loss", "f(xᵏ)", LOSS, records, 2.0),
        ("envelope", "λ/2 dist(xᵏ, Q)²", ENVELOPE, relaxed, 2.0),
        ("relaxed", "their sum, eq. 9", SUM, relaxed, 1.4),
    )
    for key, name, colour, shown, width in curves:
        values = [r[key] for r in shown]
        axes.plot([r["step"] for r in shown], values, color=colour, lw=width, label=name)
    axes.set(yscale="log", xlim=(0, steps[-1]))
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    high = axes.get_ylim()[1]
    for x, text in ((data["phase_one"] / 2, "λ from 1 to 150"), (data["phase_one"] + 3, "λ = ∞")):
        axes.annotate(text, (x, high), xytext=(0, -12), textcoords="offset points", color=QUIET)
    title(axes, f"Along a run of BinaryRelax, n = {data['weights']}, ternary")
    label(axes, x="step")
    legend(axes, loc="lower left")


def _draw_fixed(axes: Axes, data: dict[str, Any]) -> None:
    records = data["by_strength"]
    strengths = [r["strength"] for r in records]
    for key, name, colour in (
        ("relaxed", "where eq. 10 is at the end", COLOURS["binary"]),
        ("least_relaxed", "its minimum", COLOURS["float"]),
    ):
        axes.plot(
            strengths, [r[key] for r in records], "-", marker="o", ms=6, lw=2.2, color=colour,
            label=name,
        )  # fmt: skip
    for record in records:
        axes.annotate(
            f"{100 * record['at_rest']:.0f} %", (record["strength"], record["relaxed"]),
            xytext=(0, 9), textcoords="offset points", ha="center", color=INK, size=10.5,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", ylim=(0.05, 14))
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    title(axes, "λ held fixed: f + λ/2 dist², and how many runs come to rest")
    label(axes, x="λ")
    legend(axes, loc="upper left")


def draw_hamilton_jacobi(data: dict[str, Any]) -> Figure:
    """Both solutions at three times, and how their difference falls with the grid."""
    figure, (left, right) = panels(1, 2, size=(13, 4.8), width_ratios=(1.5, 1))
    curves = data["curves"]
    for number, time in enumerate(curves["times"]):
        style = {"color": TIME_COLOURS[number]}
        name = f"t = {time:g}, λ = 1/t = {1 / time:g}"
        left.plot(curves["x"], curves["hopf_lax"][number], lw=2.2, label=name, **style)
        if number:
            every = slice(None, None, 4)
            left.plot(curves["x"][every], curves["godunov"][number][every], "o", ms=4, **style)
    left.set(xlim=(-1.6, 1.6), ylim=(0, 1.5))
    title(left, "dist(x, {−1, 0, 1})²/2t (lines) and finite differences (dots)")
    label(left, x="x")
    legend(left, loc="upper center", ncols=3)
    refined = data["refinement"]
    points = np.array([r["points"] for r in refined])
    for key, name, colour in (
        ("levels", "from the levels", COLOURS["binary"]),
        ("smooth", "from cos 3x + x²/4", COLOURS["ternary"]),
    ):
        right.loglog(points, [r[key] for r in refined], "-o", lw=2.2, color=colour, label=name)
    right.set_xticks(points, [str(n) for n in points])
    right.set_yticks([0.003, 0.01, 0.03], ["0.003", "0.01", "0.03"])
    right.minorticks_off()
    title(right, f"Largest difference at t = {data['last_time']:g}")
    label(right, x="grid points")
    legend(right, loc="upper right")
    return figure
