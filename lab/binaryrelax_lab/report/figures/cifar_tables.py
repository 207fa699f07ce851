"""The paper's Tables 1 and 2 beside ours, and how far ours are from them."""

from __future__ import annotations

from binaryrelax_lab.recipes import METHOD_NAMES, Recipe, find_recipe
from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.recipes.notebook import vgg11_momentum, vgg11_notebook_row
from binaryrelax_lab.report import network_tables
from binaryrelax_lab.report.figures.evidence import Evidence, difference
from binaryrelax_lab.report.figures.markdown import bullets, spread_text, table
from binaryrelax_lab.report.figures.schedules import ALL_ROWS, network_words
from binaryrelax_lab.results.grids import paper_grids
from binaryrelax_lab.results.statistics import Figure, best, last

BEST_AND_LAST: dict[str, Figure] = {"best of Phase II": best, "last epoch": last}


def cifar10(evidence: Evidence) -> str:
    """Table 1, and how to read it."""
    grid = paper_grids(evidence.runs)[0]
    shown = network_tables.paper_table_markdown(grid)
    return f"{shown}\n\n{network_tables.markdown_note([grid])}"


def cifar100(evidence: Evidence) -> str:
    """Table 2; how to read it stands below the first."""
    return network_tables.paper_table_markdown(paper_grids(evidence.runs)[1])


def gaps_to_the_paper(evidence: Evidence) -> str:
    """By how much each cell that has been run is above the paper's."""
    rows = []
    for words, row in _rows(evidence).items():
        for which, figure in BEST_AND_LAST.items():
            cells = [_gap(evidence, row.get(method), figure) for method in PAPER_METHODS]
            rows.append((words, which, *cells))
    return table(("ours − paper", "epoch", *(METHOD_NAMES[m] for m in PAPER_METHODS)), rows)


def table_one_in_short(evidence: Evidence) -> str:
    """How many cells reach the paper's, and what the notebook's momentum makes of VGG-11."""
    gaps = [f"{METHOD_NAMES[r.method]} {_gap(evidence, r, best)}" for r in vgg11_momentum()[1:]]
    grids = zip(("Table 1", "Table 2"), paper_grids(evidence.runs), strict=False)
    reached = [f"{name}: {network_tables.against_the_paper(grid)}" for name, grid in grids]
    return bullets([*reached, f"VGG-11 with momentum 0.9 − paper: {', '.join(gaps)}"])


def _rows(evidence: Evidence) -> dict[str, dict[str, Recipe]]:
    """Tables 1 and 2 and what was asked about VGG-11, as far as run: recipes by method."""
    rows = {network_words(row()): tuple(map(row, PAPER_METHODS)) for row in ALL_ROWS}
    rows["VGG-11, momentum 0.9"] = vgg11_momentum()[1:]  # its float network is that of 0.95
    rows["VGG-11, the notebook's schedule"] = vgg11_notebook_row()
    return {
        words: {recipe.method: recipe for recipe in row}
        for words, row in rows.items()
        if any(evidence.runs_of(recipe.name) for recipe in row if recipe.quantizer)
    }


def _gap(evidence: Evidence, recipe: Recipe | None, figure: Figure) -> str:
    """A mean over seeds minus the paper's one figure, of the same network and method."""
    if recipe is None:
        return "-"
    ours = map(figure, evidence.runs_of(recipe.name))
    return spread_text((difference(value, _stated(recipe)) for value in ours), signed=True)


def _stated(recipe: Recipe) -> float | None:
    """The paper's figure of the same network and method."""
    return find_recipe(recipe.name.without_variation()).paper_accuracy


SECTIONS = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "evidence-gaps-to-the-paper": gaps_to_the_paper,
    "evidence-table-one-in-short": table_one_in_short,
}
