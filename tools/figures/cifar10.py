"""Accuracy on CIFAR-10: the tables that `binaryrelax report results --out FILE.md` writes."""

from __future__ import annotations

from binaryrelax.lab.report.grids import paper_grids
from binaryrelax.lab.report.results_page import paper_table_markdown
from binaryrelax.lab.report.results_words import markdown_note
from figures.evidence import all_runs


def cifar10() -> str:
    """The paper's Table 1 beside ours."""
    grid = paper_grids(all_runs())[0]
    return f"{paper_table_markdown(grid)}\n\n{markdown_note([grid])}"


SECTIONS = {"cifar10": cifar10}
