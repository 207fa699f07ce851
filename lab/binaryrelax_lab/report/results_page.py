"""The report on a folder of results: the paper's tables and curves beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from binaryrelax_lab.files import write_atomically
from binaryrelax_lab.report.epoch_chart import HALF, SMALL, Chart, ChartDrawing, chart_of
from binaryrelax_lab.report.language_table import language_charts, language_rows
from binaryrelax_lab.report.network_tables import has_recalibrated, network_table, tables_markdown
from binaryrelax_lab.report.rendering import html
from binaryrelax_lab.results import Collection, RunResult, collect_runs
from binaryrelax_lab.results.grids import (
    Cell,
    Grid,
    Row,
    by_recipe,
    comparisons,
    our_grids,
    paper_grids,
)
from binaryrelax_lab.results.statistics import FEWEST_SEEDS, best, is_beyond_chance, last

PANELS = (("bwn", "binary"), ("twn", "ternary", "ternary-exact"))  # as in Figure 3
NUM_OPEN = 3  # rows of curves that are open at first


@dataclass(frozen=True)
class ReportSummary:
    """What a report was made of.

    Args:
        notes: a line on each file that was left out or looks wrong; they are on the page too.
    """

    num_runs: int
    num_recipes: int
    notes: tuple[str, ...]


def write_report(folder: Path, out: Path) -> ReportSummary:
    """Writes the page about all results below `folder`, and says what it holds.

    A name that ends in .md gets the tables alone, in Markdown.
    """
    collection = collect_runs(folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    page = results_tables(collection) if out.suffix == ".md" else results_page(collection)
    write_atomically(out, page.encode())
    return ReportSummary(*_amount(collection), notes=tuple(collection.notes))


def results_tables(collection: Collection) -> str:
    """The tables alone, in Markdown."""
    runs = by_recipe(collection.runs)
    return tables_markdown(paper_grids(runs), our_grids(runs))


def results_page(collection: Collection) -> str:
    """The page; every number in it but the paper's is computed from the runs."""
    runs = by_recipe(collection.runs)
    paper, ours = paper_grids(runs), our_grids(runs)
    curves = _curves([*paper, *ours])
    language = language_rows(collection.language)
    losses = {
        words: [ChartDrawing(c, HALF, f"loss{i}-{k}") for k, c in enumerate(charts)]
        for i, (words, charts) in enumerate(language_charts(language).items())
    }
    drawings = [drawing for _, _, drawings in curves for drawing in drawings]
    drawings += [drawing for drawings in losses.values() for drawing in drawings]
    return html(
        "results.html",
        **_counts(collection.runs, paper, ours),
        notes=collection.notes,
        language=language,
        losses=losses,
        paper=[network_table(grid) for grid in paper] if runs else [],
        ours=[network_table(grid) for grid in ours],
        is_recalibrated=has_recalibrated([*paper, *ours]),
        curves=curves,
        num_open=NUM_OPEN,
        recipes={name: Cell(group[0].method, group) for name, group in runs.items()},
        amount=_amount(collection),
        last=last,
        drawing_of=lambda run, name: ChartDrawing(chart_of([[run]]), SMALL, name),
        data={"charts": {drawing.name: drawing.chart.as_json() for drawing in drawings}},
    )


def _amount(collection: Collection) -> tuple[int, int]:
    """Runs and recipes, of images and of text."""
    runs = [*collection.runs, *collection.language]
    return len(runs), len({run.name for run in runs})


def _counts(runs: Sequence[RunResult], paper: list[Grid], ours: list[Grid]) -> dict[str, float]:
    """What the sentences of the page count; a comparison is of BinaryRelax and its baseline.

    Judged are those with enough seeds to tell a difference from chance.
    """
    pairs = comparisons([*paper, *ours])
    judged = [gains for pair in pairs if len(gains := pair.gains(last)) >= FEWEST_SEEDS]
    clear = [sum(gains) > 0 for gains in judged if is_beyond_chance(gains)]
    quantized = [run for run in runs if run.recipe.is_quantized]
    cells = [cell for grid in paper for row in grid.rows for cell in row.cells]
    return {
        "num_runs": len(runs),
        "num_quantized": len(quantized),
        "num_in_q": sum(run.summary.in_q is True for run in quantized),
        "num_cells": len(cells),
        "num_filled": sum(bool(cell and cell.runs) for cell in cells),
        "num_comparisons": len(pairs),
        "num_ahead": sum(pair.is_ahead(last) for pair in pairs),
        "num_ahead_by_best": sum(pair.is_ahead(best) for pair in pairs),
        "fewest_seeds": FEWEST_SEEDS,
        "num_judged": len(judged),
        "num_clearly_ahead": clear.count(True),
        "num_clearly_behind": clear.count(False),
        "num_commits": len({run.environment.get("git_commit") for run in runs} - {None}),
        "hours": sum(run.seconds or 0 for run in runs) / 3600,
    }


def _curves(grids: list[Grid]) -> list[tuple[str, str, list[ChartDrawing]]]:
    """Network, table and charts wherever there are any; the charts are numbered through."""
    numbers = count()
    rows = [(row.label, grid.title, _row_charts(row)) for grid in grids for row in grid.rows]
    return [
        (label, title, [ChartDrawing(chart, HALF, f"chart{next(numbers)}") for chart in charts])
        for label, title, charts in rows
        if charts
    ]


def _row_charts(row: Row) -> list[Chart]:
    """Two charts, binary and ternary, as in the paper's Figure 3, as far as there are runs."""
    listed = {method for methods in PANELS for method in methods} | {"float"}
    unlisted = tuple(c.method for c in row.cells if c and c.method not in listed)
    panels = ([cell for m in methods if (cell := row.cell(m))] for methods in (*PANELS, unlisted))
    return [chart_of([cell.runs for cell in cells]) for cells in panels if cells]
