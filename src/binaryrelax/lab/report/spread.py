"""Figures over seeds: their spread, and whether a difference is more than chance."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from binaryrelax.lab.report.runs import FinishedRun

FEWEST_SEEDS = 3  # two that agree by chance would look certain
# Student's t beyond which chance leads in one case of twenty, by the number of differences.
CRITICAL = {3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
Figure = Callable[[FinishedRun], float | None]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds; a single one has no deviation."""

    mean: float
    deviation: float | None
    count: int

    def text(self, *, signed: bool = False) -> str:
        """Mean ± deviation with two digits."""
        mean = f"{self.mean:{'+' if signed else ''}.2f}".replace("-", "−")
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.2f}"

    def __str__(self) -> str:
        return self.text()


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that there are; None if there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None, len(known))


def differences(
    ours: Iterable[FinishedRun], theirs: Iterable[FinishedRun], figure: Figure
) -> list[float]:
    """A figure of our runs minus that of theirs, for each seed that both have."""
    others = {run.seed: figure(run) for run in theirs}
    pairs = [(figure(run), others.get(run.seed)) for run in ours]
    return [mine - other for mine, other in pairs if mine is not None and other is not None]


def is_beyond_chance(values: Sequence[float]) -> bool:
    """Whether differences of pairs have a mean that is not zero, by Student's t at 95 %."""
    if len(values) < FEWEST_SEEDS:
        return False
    critical = CRITICAL.get(len(values), CRITICAL[max(CRITICAL)])
    return abs(fmean(values)) > critical * stdev(values) / sqrt(len(values))
