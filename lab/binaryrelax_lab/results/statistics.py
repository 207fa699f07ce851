"""Figures over seeds: their spread, and whether a difference is more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from scipy.special import bdtr, stdtr

from binaryrelax_lab.results.run_result import RunResult

LEVEL = 0.05  # of chance that a claim may leave
FEWEST_SEEDS = 3  # two that agree by chance would look certain
Figure = Callable[[RunResult], float | None]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds; a single one has no deviation."""

    mean: float
    deviation: float | None
    count: int

    def text(self, *, signed: bool = False, digits: int = 2) -> str:
        """Mean ± deviation with two digits, or as many as asked for."""
        rounded = round(self.mean, digits) + 0.0  # no minus before zero
        mean = f"{rounded:{'+' if signed else ''}.{digits}f}".replace("-", "−")
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{digits}f}"

    def __str__(self) -> str:
        return self.text()


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that there are; None if there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None, len(known))


def last(run: RunResult) -> float:
    """The accuracy after the last epoch."""
    return run.last


def last_recalibrated(run: RunResult) -> float | None:
    """The same with batch statistics measured anew, where it was measured."""
    return run.last_recalibrated


def best(run: RunResult) -> float | None:
    """The best accuracy of Phase II, or of the same epochs without one."""
    return run.best


def mean_of_phase_two(run: RunResult) -> float:
    """The mean accuracy of the same epochs: unlike the best one, it gains nothing by swinging."""
    return fmean(record.accuracy for record in run.phase_two)


def by_seed(runs: Iterable[RunResult], figure: Figure) -> dict[int, float]:
    """A figure of each seed that has it: of several runs of one seed the mean.

    Runs of one seed differ by the rounding of their machines: they are not runs of new seeds.
    """
    found: dict[int, list[float]] = {}
    for run in runs:
        value = figure(run)
        if value is not None:
            found.setdefault(run.seed, []).append(value)
    return {seed: fmean(values) for seed, values in found.items()}


def differences(
    ours: Iterable[RunResult], theirs: Iterable[RunResult], figure: Figure
) -> list[float]:
    """A figure of our runs minus that of theirs, one for each seed that both have."""
    mine, others = by_seed(ours, figure), by_seed(theirs, figure)
    return [mine[seed] - others[seed] for seed in mine if seed in others]


def is_beyond_chance(values: Sequence[float]) -> bool:
    """Whether differences of pairs have a mean that is not zero, by Student's t at 95 %."""
    chance = chance_of(values)
    return chance is not None and chance < LEVEL


def chance_of(values: Sequence[float]) -> float | None:
    """The p of differences of pairs by Student's t, on both sides; None with too few seeds."""
    if len(values) < FEWEST_SEEDS:
        return None
    error = stdev(values) / sqrt(len(values))
    if error == 0:
        return 0.0 if fmean(values) else 1.0
    return 2 * float(stdtr(len(values) - 1, -abs(fmean(values)) / error))


def survivors(chances: Sequence[float]) -> list[bool]:
    """Which of many tests hold together at the level, by Holm's correction."""
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    found = [False] * len(chances)
    for rank, place in enumerate(order):
        if chances[place] >= LEVEL / (len(chances) - rank):
            break
        found[place] = True
    return found


def sign_chance(num_ahead: int, num_all: int) -> float:
    """The p of so uneven a number of wins if each were a fair coin, on both sides."""
    fewer = min(num_ahead, num_all - num_ahead)
    return min(1.0, 2 * float(bdtr(fewer, num_all, 0.5)))


def counted(number: int, thing: str) -> str:
    """The number with the word for it: 1 seed, 3 seeds."""
    return f"{number} {thing}" + ("" if number == 1 else "s")
