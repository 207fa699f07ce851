"""What a table of networks by methods says, line by line, whatever it is written in."""

from dataclasses import dataclass

from binaryrelax.lab.report.grids import BASELINE_OF, Cell, Grid, Row
from binaryrelax.lab.report.spread import (
    Figure,
    best,
    differences,
    last,
    last_recalibrated,
    spread_of,
)
from binaryrelax.lab.speech import counted


@dataclass(frozen=True)
class Entry:
    """One figure; `kind` is plain, missing, higher or lower; the higher of two rivals is bold."""

    text: str
    kind: str = "plain"
    is_bold: bool = False


@dataclass(frozen=True)
class Line:
    """One figure of a network, for all methods; `kind` is paper, ours or quiet."""

    label: str
    entries: list[Entry]
    kind: str = "ours"


MISSING = Entry("missing", "missing")
NOT_MEASURED = Entry("not measured", "missing")
NOTHING = Entry("-", "missing")


def lines_of(row: Row, grid: Grid) -> list[Line]:
    """The lines of a network; of BinaryRelax and its baseline the higher figure is bold."""
    lines = []
    if any(cell and cell.paper is not None for cell in row.cells):
        label = grid.paper_label + ("" if row.has_runs else " (no runs yet)")
        lines.append(Line(label, [_paper(cell) for cell in row.cells], "paper"))
    if row.has_runs:
        lines += _figure_lines(row)
    return lines


def _figure_lines(row: Row) -> list[Line]:
    lines = [Line("best of Phase II", _spreads(row, best))]
    if any(cell and cell.paper is not None and cell.runs for cell in row.cells):
        lines.append(Line("best − paper", [_difference(cell) for cell in row.cells], "quiet"))
    lines.append(Line("last epoch", _spreads(row, last)))
    if _is_measured(row, last_recalibrated):
        lines.append(Line("last, recalibrated", _spreads(row, last_recalibrated)))
    has_paper = any(cell and cell.paper_top5 for cell in row.cells)
    if has_paper or _is_measured(row, lambda run: run.last_top5):
        lines += _top5_lines(row)
    lines.append(Line("seeds", [_seeds(cell) for cell in row.cells], "quiet"))
    return lines


def _top5_lines(row: Row) -> list[Line]:
    papers = [_number(cell.paper_top5 if cell else None) for cell in row.cells]
    return [
        Line("top-5, paper", papers, "paper"),
        Line("top-5, best", _spreads(row, lambda run: run.best_top5)),
        Line("top-5, last", _spreads(row, lambda run: run.last_top5)),
    ]


def _is_measured(row: Row, figure: Figure) -> bool:
    return any(cell and cell.spread(figure) for cell in row.cells)


def _spreads(row: Row, figure: Figure) -> list[Entry]:
    return [_spread(row, cell, figure) for cell in row.cells]


def _spread(row: Row, cell: Cell | None, figure: Figure) -> Entry:
    if cell is None:
        return NOTHING
    spread = cell.spread(figure)
    if spread is None:
        return NOT_MEASURED if cell.runs else MISSING
    fewer = ""
    if spread.count < cell.num_seeds:  # older results have not measured all that newer ones have
        fewer = f" ({counted(spread.count, 'seed')})"
    return Entry(f"{spread}{fewer}", is_bold=_is_ahead(row, cell, figure))


def _is_ahead(row: Row, cell: Cell, figure: Figure) -> bool:
    """Whether the cell has the higher mean of BinaryRelax and its baseline, over their seeds."""
    rivals = {**BASELINE_OF, **{baseline: relaxed for relaxed, baseline in BASELINE_OF.items()}}
    rival = row.cell(rivals.get(cell.method, ""))
    return rival is not None and sum(differences(cell.runs, rival.runs, figure)) > 0


def _paper(cell: Cell | None) -> Entry:
    return _number(cell.paper if cell else None)


def _number(value: float | None) -> Entry:
    return NOTHING if value is None else Entry(f"{value:.2f}")


def _difference(cell: Cell | None) -> Entry:
    ours = cell.spread(best) if cell else None
    if ours is None or cell.paper is None:
        return NOTHING
    gap = spread_of([ours.mean - cell.paper]).text(signed=True)
    return Entry(gap, "higher" if gap.startswith("+") else "lower")


def _seeds(cell: Cell | None) -> Entry:
    return NOTHING if cell is None else Entry(str(cell.num_seeds))
