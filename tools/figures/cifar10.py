"""Accuracy on CIFAR: the tables that `binaryrelax report results --out FILE.md` writes."""

from __future__ import annotations

from binaryrelax.lab.recipes import METHOD_NAMES, NETWORK_NAMES, Recipe, find_recipe
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.recipes.notebook import vgg11_momentum, vgg11_notebook_row
from binaryrelax.lab.report.grids import paper_grids
from binaryrelax.lab.report.results_page import paper_table_markdown
from binaryrelax.lab.report.results_words import markdown_note
from binaryrelax.lab.report.spread import Figure
from figures.common import spread, table
from figures.evidence import BITS, ROWS, all_runs, best, differences, gain, last, runs_of

BEST_AND_LAST = {"best of Phase II": best, "last epoch": last}


def cifar10() -> str:
    """The paper's Table 1 beside ours."""
    grid = paper_grids(all_runs())[0]
    return f"{paper_table_markdown(grid)}\n\n{markdown_note([grid])}"


def cifar100() -> str:
    """The paper's Table 2 beside ours; how to read it stands below the first."""
    return paper_table_markdown(paper_grids(all_runs())[1])


def gaps_to_the_paper() -> str:
    """By how much each cell that has been run is above the paper's."""
    shown = []
    for words, row in _rows().items():
        for which, figure in BEST_AND_LAST.items():
            cells = (gap_to_the_paper(row[m], figure) if m in row else "-" for m in PAPER_METHODS)
            shown.append((words, which, *cells))
    return table(("ours − paper", "epoch", *(METHOD_NAMES[m] for m in PAPER_METHODS)), shown)


def _rows() -> dict[str, dict[str, Recipe]]:
    """Table 1 and what was asked about VGG-11, as far as it has been run: recipes by method."""
    rows = {NETWORK_NAMES[row().network]: tuple(map(row, PAPER_METHODS)) for row in ROWS}
    rows["VGG-11, momentum 0.9"] = vgg11_momentum()[1:]  # its float network is that of 0.95
    rows["VGG-11, the notebook's schedule"] = vgg11_notebook_row()
    return {
        words: {recipe.method: recipe for recipe in row}
        for words, row in rows.items()
        if any(runs_of(recipe.name) for recipe in row if recipe.quantizer)
    }


def gap_to_the_paper(recipe: Recipe, figure: Figure = best) -> str:
    """A mean over seeds minus the paper's one figure, of the same network and method."""
    paper = _stated(recipe)
    return spread((figure(run) - paper for run in runs_of(recipe.name).values()), signed=True)


def _stated(recipe: Recipe) -> float:
    """The paper's figure of the same network and method."""
    return find_recipe(f"cifar10-{recipe.network}-{recipe.method}").paper_accuracy


def gains_of_the_paper() -> str:
    """What BinaryRelax gains over BinaryConnect in the paper's table and in ours."""
    rows = []
    for words, row in _rows().items():
        cells = []
        for baseline, relaxed in BITS.values():
            ours, theirs = row[relaxed], row[baseline]
            cells.append(spread([_stated(ours) - _stated(theirs)], signed=True))
            cells += [gain(differences(ours.name, theirs.name, f)) for f in BEST_AND_LAST.values()]
        rows.append((words, *cells))
    columns = ("the paper", *(f"ours, {which}" for which in BEST_AND_LAST))
    headings = [f"{bits}, {column}" for bits in BITS for column in columns]
    return table(("gain", *headings), rows)


SECTIONS = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "findings-gaps-to-the-paper": gaps_to_the_paper,
    "findings-gains-of-the-paper": gains_of_the_paper,
}
