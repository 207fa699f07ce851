"""Accuracy on CIFAR-10: the tables that `binaryrelax report results --out FILE.md` writes."""

from __future__ import annotations

from binaryrelax.lab.report.grids import paper_grids
from binaryrelax.lab.report.results_page import paper_table_markdown
from binaryrelax.lab.report.results_words import markdown_note
from figures.evidence import all_runs


def cifar10() -> str:
    """The paper's Table 1 beside ours."""
    return f"{paper_table_markdown(paper_grids(all_runs())[0])}\n\n{markdown_note()}"


SECTIONS = {"cifar10": cifar10}
