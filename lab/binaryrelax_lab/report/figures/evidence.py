"""The committed evidence that all figures are computed from, each file of it read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from binaryrelax_lab.files import read_json
from binaryrelax_lab.results import RunResult, collect_runs
from binaryrelax_lab.results.grids import Runs, by_recipe
from binaryrelax_lab.results.statistics import Figure, differences, spread_of

Pair = tuple[str, str]  # names of recipes: ours, theirs
Record = dict[str, Any]  # of a benchmark or a study, not of a run
Key = TypeVar("Key")


@dataclass(frozen=True)
class Evidence:
    """The JSON files in results/ and benchmarks/results/ of the repository in the folder `root`."""

    root: Path
    _files: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def read(self, name: str, *keys: str) -> Any:
        """The content of a JSON file, which is named from the root, or a part of it."""
        if name not in self._files:
            self._files[name] = read_json(self.root / name)
        content = self._files[name]
        for key in keys:
            content = content[key]
        return content

    def has(self, name: str) -> bool:
        """Whether the file is there: what needs a GPU may not have been measured yet."""
        return (self.root / name).is_file()

    @cached_property
    def runs(self) -> Runs:
        """Every run by its recipe."""
        return by_recipe(collect_runs(self.root / "results").runs)

    def runs_of(self, recipe: str) -> list[RunResult]:
        """A run for each seed of a recipe, of several the last; none if it has not been run.

        Recalibrated: by themselves, or later where that was measured.
        """
        by_seed = {run.seed: run for run in self.runs.get(recipe, [])}
        return [self._recalibrated(run) for run in by_seed.values()]

    def differences(self, pair: Pair, figure: Figure) -> list[float]:
        """A figure of one recipe minus that of another, for each seed that both have."""
        ours, theirs = map(self.runs_of, pair)
        return differences(ours, theirs, figure)

    def means(self, recipes: Iterable[str], figure: Figure) -> list[float]:
        """The mean over seeds of each recipe that has the figure."""
        spreads = [spread_of(map(figure, self.runs_of(recipe))) for recipe in recipes]
        return [spread.mean for spread in spreads if spread]

    def mean_gains(self, pairs: Iterable[Pair], figure: Figure) -> list[float]:
        """The mean over seeds of each pair that has differences."""
        spreads = [spread_of(self.differences(pair, figure)) for pair in pairs]
        return [spread.mean for spread in spreads if spread]

    def _recalibrated(self, run: RunResult) -> RunResult:
        """With the gain that another machine measured later, where the run itself did not."""
        gain = self._gains_of_recalibration.get((run.name, run.seed))
        if run.last_recalibrated is not None or gain is None:
            return run
        return replace(run, summary=replace(run.summary, last_recalibrated=run.last + gain))

    @cached_property
    def _gains_of_recalibration(self) -> dict[tuple[str, int], float]:
        records = self.read("results/findings/recalibration.json", "records")
        return {(r["recipe"], r["seed"]): r["recalibrated"] - r["as_trained"] for r in records}


def difference(ours: float | None, theirs: float | None) -> float | None:
    """Ours minus theirs, where there are both."""
    return None if ours is None or theirs is None else ours - theirs


def grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """The records that have the same key, in the order of the first of each."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups
