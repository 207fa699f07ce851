"""The pictures of docs/findings.md, drawn from the results of runs alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.report.picture import COLOURS, INK, QUIET
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.theory.drawing.style import SHADE, label, legend, legend_below, panels, title
from figures.common import RESULTS, read
from figures.evidence import BITS, SCHEDULES, best, differences, last, runs_of
from figures.findings import HELD_OUT, final_strength, settings

FIRST_EPOCH_SHOWN = 200
MORE_DECAY = "+weight_decay=3e-4"
SHADES = {"+growth=1.01": 0.5, "": 1.0}


def last_epochs() -> Figure:
    """ResNet-20 towards the end, under both schedules of the learning rate."""
    figure, axes = panels(1, len(SCHEDULES), size=(13, 5.2), sharey=True)
    for place, (end, schedule) in zip(axes, SCHEDULES.items(), strict=True):
        title(place, f"ResNet-20, learning rate: {schedule}")
        label(place, x="epochs trained", y="test accuracy, %")
        place.axvspan(240, 300, color=SHADE, lw=0)
        for method in ("bwn", "binary", "twn", "ternary"):
            runs = list(runs_of(f"cifar10-resnet20-{method}{end}").values())
            if runs:
                _draw_band(place, method, [run.accuracies for run in runs])
        place.set_xlim(FIRST_EPOCH_SHOWN, 300)
        place.set_ylim(78, 93)
    legend_below(figure, axes[0], range(len(axes[0].get_lines())))
    return figure


def _draw_band(axes: Axes, method: str, curves: list[list[float]]) -> None:
    """The mean over seeds as a line, the lowest and the highest as a band."""
    epochs = range(1, len(curves[0]) + 1)
    by_epoch = list(zip(*curves, strict=True))
    style = "--" if method in ("bwn", "twn") else "-"
    name = f"{METHOD_NAMES[method]} ({len(curves)} seeds)"
    means = [fmean(values) for values in by_epoch]
    axes.plot(epochs, means, style, color=COLOURS[method], lw=1.6, label=name)
    limits = [min(values) for values in by_epoch], [max(values) for values in by_epoch]
    axes.fill_between(epochs, *limits, color=COLOURS[method], alpha=0.15, lw=0)


def gains() -> Figure:
    """BinaryRelax minus BinaryConnect, a point for each seed."""
    rows = [
        (f"{name}, {bits}", network, pair, end)
        for name, network, end in settings()
        for bits, pair in BITS.items()
        if all(runs_of(f"{network}-{method}{end}") for method in pair)
    ]
    figure, (axes,) = panels(1, 1, size=(11, 1.6 + 0.5 * len(rows)))
    for height, (_, network, (baseline, relaxed), end) in enumerate(rows):
        names = f"{network}-{relaxed}{end}", f"{network}-{baseline}{end}"
        for figure_of, filled, up in ((last, True, 0.13), (best, False, -0.13)):
            values = differences(*names, figure_of)
            face = COLOURS[relaxed] if filled else "white"
            axes.plot(
                values, [height - up] * len(values), "o", ms=8, mfc=face, mec=COLOURS[relaxed],
                mew=1.5, clip_on=False,
            )  # fmt: skip
    axes.plot([], [], "o", color=QUIET, label="last epoch")
    axes.plot([], [], "o", mfc="white", mec=QUIET, label="best epoch of Phase II")
    axes.axvline(0, color=INK, lw=1)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color=SHADE)
    label(axes, x="BinaryRelax − BinaryConnect, points of test accuracy, a dot for each seed")
    legend(axes, loc="best")
    return figure


def phase_two() -> Figure:
    """How the accuracy passes from Phase I into Phase II for different last λ."""
    methods = {bits: relaxed for bits, (_, relaxed) in BITS.items()}
    figure, axes = panels(1, len(methods), size=(13, 5.2))
    for place, (bits, method) in zip(axes, methods.items(), strict=True):
        title(place, f"ResNet-20, {bits}, annealed, 100 epochs, decay 3e-4")
        label(place, x="epochs trained", y="accuracy on held-out images, %")
        place.axvspan(80, 100, color=SHADE, lw=0)
        for change, shade in SHADES.items():
            recipe = f"cifar10-resnet20-{method}-plus{MORE_DECAY}{change}{HELD_OUT}"
            for run in runs_of(recipe).values():
                _draw_both(place, run, f"λ ends Phase I at {final_strength(recipe)}", shade)
        place.set_xlim(60, 100)
        place.set_ylim(bottom=50)
    legend_below(figure, axes[0], range(len(axes[0].get_legend_handles_labels()[1])))
    return figure


def _draw_both(axes: Axes, run: FinishedRun, name: str, shade: float) -> None:
    """The accuracy at x as a line, at proj(y) as a dotted one."""
    epochs = range(1, len(run.accuracies) + 1)
    colour = COLOURS[run.method]
    axes.plot(epochs, run.accuracies, color=colour, alpha=shade, lw=1.8, label=f"{name}, at x")
    projected = [record["accuracy_projected"] for record in run.result["epochs"]]
    axes.plot(epochs, projected, ":", color=colour, alpha=shade, lw=1.8, label=f"{name}, projected")


def flips() -> Figure:
    """How many weights flip, and how many wait at the border, while the learning rate stays."""
    records = read(RESULTS / "findings" / "flips.json")["records"]
    figure, (left, right) = panels(1, 2, size=(13, 4.8))
    title(left, "weights that a single step flips")
    title(right, "weights within 1 % of the scale of zero")
    for record, style in zip(records, ("-", "--"), strict=True):
        name = f"weight decay {record['weight_decay']:g}"
        for place, key in ((left, "flips_a_step"), (right, "at_the_border")):
            shares = [100 * epoch[key] for epoch in record["epochs"]]
            place.plot(range(1, len(shares) + 1), shares, style, color=COLOURS["bwn"], label=name)
    for place in (left, right):
        label(place, x="epochs trained", y="share of all binary weights, %")
        for before, after in pairwise(records[0]["epochs"]):
            if after["lr"] < before["lr"]:
                place.axvline(after["epoch"], color=QUIET, lw=1, ls=":")
    left.set_yscale("log")
    legend(left)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "last-epochs": last_epochs,
    "gains": gains,
    "flips": flips,
    "phase-two": phase_two,
}
