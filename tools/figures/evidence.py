"""The runs, and what is asked of them: by seed, in pairs, around the end of Phase I."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from statistics import fmean, stdev

from binaryrelax.lab.recipes import NETWORK_NAMES
from binaryrelax.lab.recipes.cifar10 import CIFAR10_ROWS
from binaryrelax.lab.report.collection import collect_runs
from binaryrelax.lab.report.grids import Runs, by_recipe
from binaryrelax.lab.report.runs import FinishedRun
from figures.common import RESULTS

LATE_EPOCHS = 20
Figure = Callable[[FinishedRun], float]
BITS = {"1 bit": ("bwn", "binary"), "ternary": ("twn", "ternary")}  # BinaryConnect, BinaryRelax
SCHEDULES = {"": "the paper's", "-plus": "annealed"}
NETWORKS = {
    recipe().network: NETWORK_NAMES[recipe().network]
    for recipe in sorted(CIFAR10_ROWS, key=lambda row: row.__name__ != "cifar10_resnet20")
}


@cache
def all_runs() -> Runs:
    """Every result by its recipe."""
    return by_recipe(collect_runs(RESULTS).runs)


def runs_of(recipe: str) -> dict[int, FinishedRun]:
    """The runs of a recipe by seed; none if it has not been run."""
    return {run.seed: run for run in all_runs().get(recipe, [])}


def last(run: FinishedRun) -> float:
    """The accuracy after the last epoch."""
    return run.result["summary"]["last"]


def late(run: FinishedRun) -> float:
    """The mean over the last epochs of Phase II: the very last may be a lucky or unlucky one."""
    return fmean(run.accuracies[run.phase_two_epoch :][-LATE_EPOCHS:])


def best(run: FinishedRun) -> float:
    """The best accuracy of Phase II: what the paper reports."""
    return run.result["summary"]["best_phase_two"]


def spread(values: Iterable[float], signed: bool = False) -> str:
    """Mean ± standard deviation; a dash if there is nothing."""
    values = list(values)
    if not values:
        return "-"
    mean = f"{fmean(values):{'+' if signed else ''}.2f}".replace("-", "−")
    return mean + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def differences(ours: str, theirs: str, figure: Figure) -> list[float]:
    """A figure of one recipe minus that of another, seed by seed.

    Runs of a seed start from the same float network and see the images in the same order.
    """
    mine, others = runs_of(ours), runs_of(theirs)
    return [figure(mine[seed]) - figure(others[seed]) for seed in sorted(mine.keys() & others)]


def gain(values: list[float]) -> str:
    """Mean ± deviation of differences, and in how many of the seeds they are above zero."""
    if not values:
        return "-"
    ahead = sum(value > 0 for value in values)
    return f"{spread(values, signed=True)} ({ahead} of {len(values)})"


def verdict(values: list[float]) -> str:
    """Yes or no where all seeds agree."""
    if not values:
        return "-"
    if all(value > 0 for value in values):
        return "yes"
    return "**no**" if all(value <= 0 for value in values) else "unclear"
