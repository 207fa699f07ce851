"""The table of results in the README: both datasets, a line for each network that has runs."""

from __future__ import annotations

from statistics import fmean

from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import NOTHING, table
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.grids import BASELINE_OF, Cell, Grid, Row, comparisons, paper_grids
from binaryrelax_lab.results.statistics import Figure, best, differences, last

DATASETS = ("CIFAR-10", "CIFAR-100")  # the paper's first two tables
QUANTIZED = PAPER_METHODS[1:]
HEADINGS = ("BWN", "BinaryRelax, 1 bit", "TWN", "BinaryRelax, ternary")
RIVALS = {**BASELINE_OF, **{baseline: relaxed for relaxed, baseline in BASELINE_OF.items()}}


def mean_of_phase_two(run: RunResult) -> float | None:
    """The mean accuracy of Phase II, or of the same epochs without one."""
    epochs = run.accuracies[run.recipe.phase_two_epoch :]
    return fmean(epochs) if epochs else None


def results_in_short(evidence: Evidence) -> str:
    """Last epoch, best of Phase II and the paper's figure; then who is ahead how often."""
    grids = paper_grids(evidence.runs)[: len(DATASETS)]
    rows = [
        (f"{row.label}, {data}", _seeds(row), *(_cell(row, method) for method in QUANTIZED))
        for data, grid in zip(DATASETS, grids, strict=True)
        for row in grid.rows
        if any(row.cell(method) for method in QUANTIZED)
    ]
    return f"{table(('last / best (paper)', 'seeds', *HEADINGS), rows)}\n\n{_who_is_ahead(grids)}"


def _cell(row: Row, method: str) -> str:
    cell = row.cell(method)
    if cell is None:
        return NOTHING
    shown = f"{_figure(row, cell, last)} / {_figure(row, cell, best)}"
    return shown if cell.paper is None else f"{shown} ({cell.paper:.2f})"


def _figure(row: Row, cell: Cell, figure: Figure) -> str:
    """The mean over seeds; bold if it is above that of BinaryRelax or its baseline."""
    spread = cell.spread(figure)
    if spread is None:
        return NOTHING
    rival = row.cell(RIVALS[cell.method])
    is_ahead = rival is not None and sum(differences(cell.runs, rival.runs, figure)) > 0
    return f"**{spread.mean:.2f}**" if is_ahead else f"{spread.mean:.2f}"


def _seeds(row: Row) -> str:
    counts = sorted({cell.num_seeds for method in QUANTIZED if (cell := row.cell(method))})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _who_is_ahead(grids: list[Grid]) -> str:
    pairs = comparisons(grids)
    ahead = [sum(pair.is_ahead(f) for pair in pairs) for f in (last, mean_of_phase_two, best)]
    return (
        f"BinaryRelax beats its baseline in {ahead[0]} of {len(pairs)} pairs at the last epoch, "
        f"{ahead[1]} by the mean of Phase II, {ahead[2]} by the best."
    )


SECTIONS = {"results-in-short": results_in_short}
