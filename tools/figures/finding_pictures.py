"""The pictures of docs/findings.md, drawn from committed JSON files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from binaryrelax.lab.drawing import COLOURS, GRID, INK, QUIET, SHADE, label, legend, panels, title
from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.recipes.recipe import PLUS, TUNED
from binaryrelax.lab.recipes.search import MORE_DECAY, SMALLER_STRENGTH, tried
from binaryrelax.lab.report.runs import FinishedRun
from figures.common import RESULTS, read
from figures.evidence import (
    BITS,
    best,
    differences,
    final_strength,
    last,
    recalibrated,
    runs_of,
    settings,
)

FIRST_EPOCH_SHOWN = 200
OTHER_COLOUR = "#7c3aed"
GAINS_SHOWN = {  # a figure of a run, its marker, whether that is filled
    "last epoch": (last, "o", True),
    "last epoch, recalibrated": (recalibrated, "D", True),
    "best epoch of Phase II": (best, "o", False),
}


def gains() -> Figure:
    """BinaryRelax minus BinaryConnect, a point for each seed."""
    rows = [
        (f"{words}, {bits}", network, pair, end)
        for words, network, end in settings()
        for bits, pair in BITS.items()
        if all(runs_of(f"{network}-{method}{end}") for method in pair)
    ]
    figure, (axes,) = panels(1, 1, size=(11, 1.9 + 0.6 * len(rows)))
    for height, (_, network, (baseline, relaxed), end) in enumerate(rows):
        names = f"{network}-{relaxed}{end}", f"{network}-{baseline}{end}"
        for below, (measure, marker, filled) in zip(
            (-0.25, 0, 0.25), GAINS_SHOWN.values(), strict=True
        ):
            values = differences(*names, measure)
            heights = [height + below + 0.09 * number for number in range(len(values))]
            if values:  # nothing at all, unclipped, would count as a point in the corner
                style = _dots(marker, COLOURS[relaxed], filled)
                axes.plot(values, heights, **style, clip_on=False)
    axes.axvline(0, color=INK, lw=1)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color=GRID)
    label(axes, x="BinaryRelax − BinaryConnect, points of test accuracy; a dot for each seed")
    handles = [
        Line2D([], [], **_dots(marker, QUIET, filled), label=words)
        for words, (_, marker, filled) in GAINS_SHOWN.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=11)
    return figure


def _dots(marker: str, colour: str, filled: bool) -> dict[str, Any]:
    face = colour if filled else "white"
    return {"ls": "", "marker": marker, "ms": 8, "mfc": face, "mec": colour, "mew": 1.5}


def last_epochs() -> Figure:
    """ResNet-20 towards the end, under both schedules: always of quantized weights."""
    figure, (left, right) = panels(1, 2, size=(13, 5), sharey=True)
    title(left, "ResNet-20, the paper's schedule")
    title(right, "ResNet-20, annealed")
    _draw_methods(left, ("bwn", "binary", "twn", "ternary"), "", "")
    _draw_methods(right, ("bwn", "binary", "twn", "ternary"), PLUS, "")
    _draw_methods(right, ("binary", "ternary"), TUNED, " tuned")
    for place in (left, right):
        label(place, x="epochs trained", y="test accuracy of quantized weights, %")
        place.set_xlim(FIRST_EPOCH_SHOWN, 300)
        place.set_ylim(66, 93)
        _shade_phase_two(place, runs_of("cifar10-resnet20-binary").values())
        legend(place, loc="lower right")
    return figure


def _draw_methods(axes: Axes, methods: Iterable[str], end: str, more: str) -> None:
    """The mean over seeds as a line, the lowest and the highest as a band."""
    for method in methods:
        runs = runs_of(f"cifar10-resnet20-{method}{end}").values()
        if not runs:
            continue
        by_epoch = list(zip(*(run.quantized_accuracies for run in runs), strict=True))
        epochs = range(1, len(by_epoch) + 1)
        style = "--" if method in ("bwn", "twn") else ":" if more else "-"
        seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
        axes.plot(
            epochs, [fmean(values) for values in by_epoch], style, color=COLOURS[method], lw=1.6,
            label=f"{METHOD_NAMES[method]}{more} ({seeds})",
        )  # fmt: skip
        limits = [min(values) for values in by_epoch], [max(values) for values in by_epoch]
        axes.fill_between(epochs, *limits, color=COLOURS[method], alpha=0.15, lw=0)


def _shade_phase_two(axes: Axes, runs: Iterable[FinishedRun]) -> None:
    run = next(iter(runs))
    axes.axvspan(run.phase_two_epoch, len(run.accuracies), color=SHADE, lw=0, zorder=-2)
    place = (run.phase_two_epoch + len(run.accuracies)) / 2
    axes.text(
        place, 0.985, "Phase II", color=QUIET, ha="center", va="top", fontsize=11,
        transform=axes.get_xaxis_transform(),
    )  # fmt: skip


def phase_two() -> Figure:
    """How the accuracy passes from Phase I into Phase II for two last λ."""
    figure, axes = panels(1, len(BITS), size=(13, 5.4), sharey=True)
    for place, (bits, (_, method)) in zip(axes, BITS.items(), strict=True):
        title(place, f"ResNet-20, {bits}, annealed, 100 epochs, decay 3e-4")
        label(place, x="epochs trained", y="accuracy on held-out images, %")
        changes = {OTHER_COLOUR: MORE_DECAY | SMALLER_STRENGTH, COLOURS[method]: MORE_DECAY}
        for colour, change in changes.items():
            recipe = tried(method, change)
            _draw_both(place, runs_of(recipe.name)[0], f"λ up to {final_strength(recipe)}", colour)
        _shade_phase_two(place, runs_of(tried(method, MORE_DECAY).name).values())
        place.set_xlim(60, 100)
        place.set_ylim(0, 100)
        legend(place, loc="lower right")
    return figure


def _draw_both(axes: Axes, run: FinishedRun, name: str, colour: str) -> None:
    """The accuracy at x as a line, at proj(y) as a dotted one; in Phase II they are the same."""
    epochs = range(1, len(run.accuracies) + 1)
    axes.plot(epochs, run.accuracies, color=colour, lw=1.8, label=f"{name}: at x")
    until = run.phase_two_epoch + 1
    projected = [record["accuracy_projected"] for record in run.result["epochs"]][:until]
    axes.plot(epochs[:until], projected, ":", color=colour, lw=2, label=f"{name}: projected")


def flips() -> Figure:
    """Weights that flip or wait at the border while the learning rate stays, and the accuracy."""
    records = read(RESULTS / "findings" / "flips.json")["records"]
    figure, (left, middle, right) = panels(1, 3, size=(15, 4.8))
    title(left, "weights that a single step flips")
    title(middle, "weights with |y| below 1 % of the scale")
    title(right, f"test accuracy, weight decay {records[0]['weight_decay']:g}")
    for record, style in zip(records, ("-", "--"), strict=True):
        name = f"weight decay {record['weight_decay']:g}"
        for place, key in ((left, "flips_a_step"), (middle, "at_the_border")):
            shares = [100 * epoch[key] for epoch in record["epochs"]]
            _draw_epochs(place, shares, style, color=COLOURS["bwn"], label=name)
    statistics = {"accuracy": ("batch statistics of training", COLOURS["bwn"])}
    statistics["recalibrated"] = ("measured anew", INK)
    for key, (name, colour) in statistics.items():
        values = [epoch[key] for epoch in records[0]["epochs"]]
        _draw_epochs(right, values, "-", color=colour, label=name)
    left.set_yscale("log")
    left.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3], ["0.003", "0.01", "0.03", "0.1", "0.3"])
    right.set_ylim(78, 91)
    for place, unit in ((left, "of all weights"), (middle, "of all weights"), (right, "of images")):
        label(place, x="epochs trained; dotted: learning rate / 10", y=f"share {unit}, %")
        for before, after in pairwise(records[0]["epochs"]):
            if after["lr"] < before["lr"]:
                place.axvline(after["epoch"], color=QUIET, lw=1, ls=":")
        legend(place)
    return figure


def _draw_epochs(axes: Axes, values: list[float], style: str, **options: str) -> None:
    axes.plot(range(1, len(values) + 1), values, style, **options)


ALL: dict[str, Callable[[], Figure]] = {
    "gains": gains,
    "last-epochs": last_epochs,
    "flips": flips,
    "phase-two": phase_two,
}
