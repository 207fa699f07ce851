"""Every cell of the paper's Tables 1, 2 and 3 with its status, for docs/evidence/checklist.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from binaryrelax_lab.recipes import METHOD_NAMES, NETWORK_NAMES, TABLES, Recipe
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import NOTHING, spread_text, table
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import Figure, Spread, best, last, spread_of

REPRODUCED, ABOVE, BELOW, NOT_RUN = "reproduced", "above", "below", "not run yet"
TOLERANCES = {"cifar10": 0.3, "cifar100": 0.5, "imagenet": 0.5}  # points that count as reproduced
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet": "ImageNet"}


@dataclass(frozen=True)
class PaperCell:
    """One figure of the paper and the runs of the same recipe.

    Args:
        words: network and method, as the table shows them.
        paper: the paper's figure.
        best, last: the same figure of a run, by the best of Phase II and by the last epoch.
    """

    dataset: str
    words: tuple[str, str]
    paper: float
    runs: list[RunResult]
    best: Figure = best
    last: Figure = last

    def status(self, figure: Figure) -> str:
        """Within the tolerance of the paper's figure, above it or below it."""
        ours = spread_of(map(figure, self.runs))
        if ours is None:
            return NOT_RUN
        gap = round(ours.mean - self.paper, 2)  # as the table shows it
        if abs(gap) <= TOLERANCES[self.dataset]:
            return REPRODUCED
        return ABOVE if gap > 0 else BELOW

    @property
    def row(self) -> tuple[str, ...]:
        """The line of the table."""
        if not self.runs:
            return (*self.words, f"{self.paper:.2f}", *[NOTHING] * 5, NOT_RUN, NOT_RUN)
        figures: list[str] = []
        for figure in (self.best, self.last):
            figures += [spread_text(map(figure, self.runs)), self._gap(figure)]
        statuses = map(self.status, (self.best, self.last))
        return (*self.words, f"{self.paper:.2f}", *figures, str(len(self.runs)), *statuses)

    def _gap(self, figure: Figure) -> str:
        ours = spread_of(map(figure, self.runs))
        return Spread(ours.mean - self.paper, None, 1).text(signed=True) if ours else NOTHING


def paper_cells(evidence: Evidence, dataset: str) -> Iterator[PaperCell]:
    """All cells of the table of a dataset, row by row; ImageNet's have a second figure, top-5."""
    for recipe in TABLES[dataset].recipes:
        runs = evidence.runs_of(recipe.name)
        if recipe.paper_accuracy is not None:
            yield PaperCell(dataset, _words(recipe), recipe.paper_accuracy, runs)
        if recipe.paper_accuracy_top5 is not None:
            words = _words(recipe, ", top-5")
            yield PaperCell(
                dataset, words, recipe.paper_accuracy_top5, runs,
                best=lambda run: run.best_top5, last=lambda run: run.last_top5,
            )  # fmt: skip


def _words(recipe: Recipe, more: str = "") -> tuple[str, str]:
    return NETWORK_NAMES[recipe.network], METHOD_NAMES[recipe.method] + more


def cells(evidence: Evidence, dataset: str) -> str:
    """A table of the paper, a row for each cell."""
    headings = ("network", "method", "paper", "best of Phase II", "best − paper", "last epoch")
    more = ("last − paper", "seeds", "status by the best", "status by the last")
    return table((*headings, *more), (cell.row for cell in paper_cells(evidence, dataset)))


def tally(evidence: Evidence) -> str:
    """How many cells of each table have which status."""
    rows = []
    for number, (dataset, name) in enumerate(DATASETS.items(), 1):
        found = list(paper_cells(evidence, dataset))
        by_best, by_last = ([cell.status(f) for cell in found] for f in (best, last))
        counts = [str(by_best.count(s)) for s in (REPRODUCED, ABOVE, BELOW)]
        counts += [str(by_last.count(s)) for s in (REPRODUCED, ABOVE, BELOW, NOT_RUN)]
        title = f"Table {number}, {name}"
        rows.append((title, f"± {TOLERANCES[dataset]}", str(len(found)), *counts))
    kinds = (REPRODUCED, ABOVE, BELOW)
    headings = [f"{kind}, by the {which}" for which in ("best", "last") for kind in kinds]
    return table(("", "tolerance", "cells", *headings, NOT_RUN), rows)


SECTIONS = {
    "checklist-tables": tally,
    **{
        f"checklist-table-{number}": partial(cells, dataset=dataset)
        for number, dataset in enumerate(DATASETS, 1)
    },
}
