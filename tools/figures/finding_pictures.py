"""The pictures of docs/findings.md, drawn from committed JSON files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryrelax.lab.drawing import COLOURS, INK, QUIET, SHADE, label, legend, panels, title
from binaryrelax.lab.recipes import METHOD_NAMES, Recipe
from binaryrelax.lab.recipes.recipe import PLUS, TUNED
from binaryrelax.lab.recipes.search import MORE_DECAY, SMALLER_STRENGTH, tried
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.spread import spread_of
from binaryrelax.lab.speech import counted
from figures.common import RESULTS, read
from figures.evidence import BITS, final_strength, last, runs_of
from figures.findings import STRENGTHS, recipes_by_strength

FIRST_EPOCH_SHOWN = 200
OTHER_COLOUR = "#7c3aed"


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
        seeds = counted(len(runs), "seed")
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
    statistics["recalibrated"] = ("recalibrated", INK)
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


def strengths() -> Figure:
    """The last epoch by the λ at which Phase I ends: the demo, and tries of ResNet-20."""
    figure, (left, right) = panels(1, 2, size=(13, 4.6))
    of_the_demo = {bits: recipes_by_strength(*pair) for bits, pair in BITS.items()}
    tries = {
        bits: [tried(method, MORE_DECAY | change) for change in STRENGTHS]
        for bits, (_, method) in BITS.items()
    }
    seeds = _draw_strengths(left, of_the_demo)
    title(left, f"the demo, annealed, 10 epochs: mean ± deviation of {counted(seeds, 'seed')}")
    seeds = _draw_strengths(right, tries)
    title(right, f"ResNet-20, annealed, 100 epochs, decay 3e-4: {counted(seeds, 'seed')}")
    label(left, x="λ at the end of Phase I", y="test accuracy, last epoch, %")
    label(right, x="λ at the end of Phase I", y="accuracy on held-out images, last epoch, %")
    for place in (left, right):
        place.margins(x=0.15, y=0.25)
        legend(place, loc="lower right")
    return figure


def _draw_strengths(axes: Axes, columns: dict[str, list[Recipe]]) -> int:
    """Means with their deviations, side by side; λ without runs are left out.

    Returns the number of seeds that each has at most.
    """
    order = [final_strength(recipe) for recipe in next(iter(columns.values()))]
    known = [recipe for recipes in columns.values() for recipe in recipes if runs_of(recipe.name)]
    shown = [strength for strength in order if strength in map(final_strength, known)]
    for bits, recipes in columns.items():
        run = [recipe for recipe in recipes if recipe in known]
        spreads = [spread_of(map(last, runs_of(recipe.name).values())) for recipe in run]
        axes.errorbar(
            [shown.index(final_strength(recipe)) for recipe in run],
            [spread.mean for spread in spreads],
            [spread.deviation or 0 for spread in spreads],
            color=COLOURS[BITS[bits][1]],
            marker="o",
            capsize=4,
            lw=1.2,
            label=bits,
        )
    axes.set_xticks(range(len(shown)), shown)
    return max(len(runs_of(recipe.name)) for recipe in known)


ALL: dict[str, tuple[Callable[[], Figure], str]] = {
    "last-epochs": (
        last_epochs,
        "Test accuracy of the last hundred epochs under both schedules",
    ),
    "flips": (
        flips,
        "Weights that a step flips, weights next to zero, and the accuracy with old and new batch "
        "statistics",
    ),
    "strengths": (strengths, "Accuracy of the last epoch by the λ at the end of Phase I"),
    "phase-two": (
        phase_two,
        "Accuracy at x and projected, around the beginning of Phase II",
    ),
}
