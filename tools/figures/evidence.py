"""The runs, and what is asked of them: figures by seed, comparisons, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import sqrt
from statistics import fmean, stdev

from binaryrelax.lab.recipes import NETWORK_NAMES, Recipe
from binaryrelax.lab.recipes.cifar10 import CIFAR10_ROWS, cifar10_resnet20
from binaryrelax.lab.recipes.recipe import PLUS
from binaryrelax.lab.report.collection import collect_runs
from binaryrelax.lab.report.grids import Runs, by_recipe
from binaryrelax.lab.report.runs import FinishedRun
from figures.common import RESULTS, spread

Measure = Callable[[FinishedRun], float]
LATE_EPOCHS = 20
BITS = {"1 bit": ("bwn", "binary"), "ternary": ("twn", "ternary")}  # BinaryConnect, BinaryRelax
SCHEDULES = {"": "the paper's schedule", PLUS: "annealed"}
ROWS = dict.fromkeys((cifar10_resnet20, *CIFAR10_ROWS))  # ResNet-20 first: it has most runs


@cache
def all_runs() -> Runs:
    """Every result by its recipe."""
    return by_recipe(collect_runs(RESULTS).runs)


def runs_of(recipe: str) -> dict[int, FinishedRun]:
    """The runs of a recipe by seed; none if it has not been run."""
    return {run.seed: run for run in all_runs().get(recipe, [])}


def settings() -> list[tuple[str, str, str]]:
    """Networks by schedules: in words, and how the recipes of both begin and end."""
    return [
        (f"{NETWORK_NAMES[row().network]}, {words}", f"cifar10-{row().network}", end)
        for row in ROWS
        for end, words in SCHEDULES.items()
    ]


def final_strength(recipe: Recipe) -> str:
    """λ at the end of Phase I."""
    if not recipe.is_relaxed:
        return "∞ (BinaryConnect)"
    return f"{recipe.initial_strength * recipe.growth**recipe.num_growths:,.0f}"


def last(run: FinishedRun) -> float:
    """The accuracy after the last epoch."""
    return run.result["summary"]["last"]


def late(run: FinishedRun) -> float:
    """The mean over the last epochs of Phase II: the very last may be a lucky or unlucky one."""
    return fmean(late_epochs(run))


def swing(run: FinishedRun) -> float:
    """The standard deviation over the same epochs."""
    return stdev(late_epochs(run))


def best(run: FinishedRun) -> float:
    """The best accuracy of Phase II: what the paper reports."""
    return run.result["summary"]["best_phase_two"]


def late_epochs(run: FinishedRun) -> list[float]:
    """The accuracies of the last epochs of Phase II."""
    return run.accuracies[run.phase_two_epoch :][-LATE_EPOCHS:]


def differences(ours: str, theirs: str, measure: Measure) -> list[float]:
    """A figure of one recipe minus that of another, for each seed that both have."""
    mine, others = runs_of(ours), runs_of(theirs)
    return [measure(mine[seed]) - measure(others[seed]) for seed in sorted(mine.keys() & others)]


def gain(values: list[float]) -> str:
    """Mean ± deviation of differences, and in how many of the seeds they are above zero."""
    ahead = sum(value > 0 for value in values)
    return f"{spread(values, signed=True)} ({ahead} of {len(values)})"


def verdict(values: list[float]) -> str:
    """Yes or no: with a question mark from a single seed, else beyond two standard errors."""
    mean = fmean(values)
    answer = "yes" if mean > 0 else "**no**"
    if len(values) == 1:
        return f"{answer}?"
    return answer if abs(mean) > 2 * stdev(values) / sqrt(len(values)) else "unclear"
