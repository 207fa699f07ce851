"""The runs, and what is asked of them: figures of a run, comparisons seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil
from statistics import fmean, stdev

from binaryrelax.lab.recipes import NETWORK_NAMES, Recipe
from binaryrelax.lab.recipes.cifar10 import CIFAR10_ROWS, cifar10_resnet20
from binaryrelax.lab.recipes.recipe import PLUS, TUNED
from binaryrelax.lab.report import spread as paired
from binaryrelax.lab.report.collection import collect_runs
from binaryrelax.lab.report.grids import Runs, by_recipe
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.spread import Figure, best as best, is_beyond_chance, last as last
from figures.common import RESULTS, read, spread

LATE_SHARE = 15  # the last fifteenth of the epochs: 20 of 300, 7 of 100
FEWEST_LATE = 5
BITS = {"1 bit": ("bwn", "binary"), "ternary": ("twn", "ternary")}  # BinaryConnect, BinaryRelax
# By the end of a recipe's name.
SCHEDULES = {"": "the paper's schedule", PLUS: "annealed", TUNED: "annealed, tuned"}
LESS_MOMENTUM = "+momentum=0.9"
ALL_SCHEDULES = SCHEDULES | {  # asked of VGG-11 alone
    LESS_MOMENTUM: "the paper's schedule, momentum 0.9",
    "-notebook": "the notebook's schedule",
}
TRAINING_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "fashion-mnist-12k": 10_000}
ROWS = dict.fromkeys((cifar10_resnet20, *CIFAR10_ROWS))  # ResNet-20 first: it has most runs


@cache
def all_runs() -> Runs:
    """Every result by its recipe."""
    return by_recipe(collect_runs(RESULTS).runs)


def runs_of(recipe: str) -> dict[int, FinishedRun]:
    """The runs of a recipe by seed; none if it has not been run."""
    return {run.seed: run for run in all_runs().get(recipe, [])}


def settings(schedules: dict[str, str] = ALL_SCHEDULES) -> list[tuple[str, str, str]]:
    """Networks by schedules: in words, and how the recipes of both begin and end."""
    return [
        (f"{NETWORK_NAMES[row().network]}, {words}", f"cifar10-{row().network}", end)
        for row in ROWS
        for end, words in schedules.items()
    ]


def final_strength(recipe: Recipe) -> str:
    """λ at the end of Phase I."""
    if not recipe.is_relaxed:
        return "∞ (BinaryConnect)"
    steps = ceil((TRAINING_IMAGES[recipe.dataset] - recipe.held_out) / recipe.batch_size)
    return f"{recipe.schedule(steps)(recipe.phase_two_epoch * steps - 1):,.0f}"


def recalibrated(run: FinishedRun) -> float | None:
    """The last accuracy with batch statistics measured anew; None where that was not done."""
    change = gain_of_recalibration(run)
    return None if change is None else run.last + change


def gain_of_recalibration(run: FinishedRun) -> float | None:
    """What that changes, measured on one machine: that of the run, or a CPU later."""
    if run.last_recalibrated is not None:
        return run.last_recalibrated - run.last
    return _recalibrated_later().get((run.name, run.seed))


@cache
def _recalibrated_later() -> dict[tuple[str, int], float]:
    """The gain of networks whose runs did not do it themselves, by recipe and seed."""
    records = read(RESULTS / "findings" / "recalibration.json")["records"]
    return {(r["recipe"], r["seed"]): r["recalibrated"] - r["as_trained"] for r in records}


def late(run: FinishedRun) -> float | None:
    """The mean over the last epochs: the very last may be a lucky or unlucky one.

    None if a fifteenth of the epochs are too few to say more than the very last.
    """
    epochs = late_epochs(run)
    return fmean(epochs) if len(epochs) >= FEWEST_LATE else None


def swing(run: FinishedRun) -> float | None:
    """The standard deviation over the same epochs."""
    epochs = late_epochs(run)
    return stdev(epochs) if len(epochs) >= FEWEST_LATE else None


def best_of_all(run: FinishedRun) -> float:
    """The best accuracy of any epoch with quantized weights, projected in Phase I."""
    return max(run.quantized_accuracies)


def late_epochs(run: FinishedRun) -> list[float]:
    """The accuracies of the last epochs."""
    return run.accuracies[-max(1, round(len(run.accuracies) / LATE_SHARE)) :]


def differences(ours: str, theirs: str, figure: Figure) -> list[float]:
    """A figure of one recipe minus that of another, for each seed that both have."""
    return paired.differences(runs_of(ours).values(), runs_of(theirs).values(), figure)


def gain(values: Sequence[float]) -> str:
    """Mean ± deviation of differences, in how many seeds above zero; bold if beyond chance."""
    if not values:
        return "-"
    shown = spread(values, signed=True)
    ahead = sum(value > 0 for value in values)
    return f"{f'**{shown}**' if is_beyond_chance(values) else shown} ({ahead} of {len(values)})"
