"""α_k along runs and over problems, and both conclusions of the main theorem."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryrelax.lab.drawing import COLOURS, GRID, INK, QUIET, label, legend, panels, title

IN_Q, NOT_IN_Q, BOUND = COLOURS["binary"], "#b4235a", COLOURS["float"]


def draw_alpha(data: dict[str, Any]) -> Figure:
    """α at changes of line: step by step on the left, its range on each problem on the right."""
    figure, (left, right) = panels(1, 2, size=(13.5, 5.4), width_ratios=(1, 1.15))
    _draw_steps(left, data["along_runs"])
    _draw_ranges(right, data["one_scale"])
    return figure


def _draw_steps(axes: Axes, runs: dict[str, Any]) -> None:
    names = {"noisy": "quadratic with noise, n = 8", "without_noise": "no noise, n = 2"}
    for key, colour in (("noisy", COLOURS["bwn"]), ("without_noise", COLOURS["ternary"])):
        steps, alphas, _ = zip(*runs[key]["points"], strict=True)
        axes.semilogy(steps, alphas, "o", ms=3, color=colour, label=f"α: {names[key]}")
    steps, _, sizes = zip(*runs["without_noise"]["points"], strict=True)
    axes.semilogy(steps, sizes, color=INK, lw=1.8, label="learning rate γ")
    axes.set_ylim(1e-6, 3)
    title(axes, "α at the steps that change line falls with γ")
    label(axes, x="step")
    legend(axes, loc="lower left", markerscale=2.2)


def _draw_ranges(axes: Axes, records: list[dict[str, Any]]) -> None:
    """Least, median and largest α at changes; below 0 only with the threshold."""
    names = []
    for row, record in enumerate(records):
        low, middle, high = record["alpha_at_changes"]
        colour = NOT_IN_Q if low < 0 else IN_Q
        axes.hlines(row, low, high, color=colour, lw=5, alpha=0.35)
        axes.plot(middle, row, "o", color=colour, ms=8)
        axes.annotate(
            f"{record['line_changes']} changes", (0.72, row), xytext=(0, -4),
            textcoords="offset points", color=QUIET, size=10.5,
        )  # fmt: skip
        quantizer = record["quantizer"].replace("(ratio=0.7)", "").replace("()", "")
        names.append(f"{record['problem']}, {quantizer}")
    axes.set_yticks(range(len(names)), names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(-0.5, 1.02))
    axes.axvline(0, color=QUIET, lw=1)
    axes.axvline(1, color=QUIET, lw=1, ls="--")
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID)
    axes.tick_params(axis="y", labelcolor=INK)
    title(axes, "Range and median of α at changes (1 between them)")


def draw_theorem(data: dict[str, Any]) -> Figure:
    """Left sides against right sides, and the movement at the beginning and at the end."""
    figure, (left, right) = panels(1, 2, size=(13.5, 5.2))
    held, elsewhere = data["center_in_q"], data["center_not_in_q"]
    places = list(range(len(held)))
    left.semilogy(
        places, [r["bound"] for r in held], "_", ms=26, mew=3, color=BOUND,
        label="3σ²(4ᾱ/α̲² + 1), minimum in Q",
    )  # fmt: skip
    for records, colour, where in ((held, IN_Q, "in Q"), (elsewhere, NOT_IN_Q, "not in Q")):
        name = f"liminf E dist(0, ∂h)², minimum {where}"
        left.semilogy(
            places, [r["limit_inferior"] for r in records], "o", ms=9, color=colour, label=name
        )
        _draw_movement(right, records, colour, where)
    for axes in (left, right):
        axes.set_xticks(places, [f"σ = {r['sigma']:g}\nL = {r['L']:g}" for r in held])
        axes.set_xlim(-0.6, len(held) - 0.4)
    left.set_ylim(1e-3, 1e9)
    right.set_ylim(1e-9, 1e5)
    title(left, "Second conclusion: measured, and its bound")
    title(right, "First conclusion: E‖xᵏ⁺¹ − xᵏ‖², from the first to the last fifth")
    legend(left, loc="upper left")
    legend(right, loc="upper left")
    return figure


def _draw_movement(axes: Axes, records: list[dict[str, Any]], colour: str, where: str) -> None:
    for place, record in enumerate(records):
        ends = [record["movement_first"], record["movement_tail"]]
        axes.annotate(
            "", xy=(place, ends[1]), xytext=(place, ends[0]),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
    first = [record["movement_first"] for record in records]
    axes.semilogy(range(len(first)), first, "o", ms=6, color=colour, label=f"minimum {where}")
