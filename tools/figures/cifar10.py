"""Accuracy on CIFAR-10: the tables that `binaryrelax report results --out FILE.md` writes."""

from __future__ import annotations

from binaryrelax.lab.report.collection import collect_runs
from binaryrelax.lab.report.grid_table import grid_markdown
from binaryrelax.lab.report.grids import by_recipe, paper_grids
from binaryrelax.lab.report.results_words import markdown_note
from figures.common import RESULTS


def cifar10() -> str:
    """The paper's Table 1 beside ours."""
    table_1 = paper_grids(by_recipe(collect_runs(RESULTS / "cifar10").runs))[0]
    return f"{grid_markdown(table_1)}\n\n{markdown_note()}"


SECTIONS = {"cifar10": cifar10}
