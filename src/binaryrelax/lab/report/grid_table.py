"""A grid as an HTML table: the paper's figure and ours below each other, seeds counted."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.report.chart import swatch
from binaryrelax.lab.report.grids import BASELINES, Cell, Grid, Row, Spread
from binaryrelax.lab.report.svg import element

MISSING = element("td", "missing", class_="missing")
NOTHING = element("td", "-", class_="missing")
Figure = Callable[[Cell], Spread | None]


@dataclass(frozen=True)
class _Line:
    """One figure of a network, for all methods; `kind` is paper, ours or quiet."""

    label: str
    cells: list[str]
    kind: str = "ours"

    def html(self, name: str | None) -> str:
        title = "" if name is None else element("b", escape(name))
        label = element("th", title, escape(self.label), scope="row")
        return element("tr", label, *self.cells, class_=self.kind)


def grid_html(grid: Grid) -> str:
    """The table; of the figures of BinaryRelax and its baseline the higher is bold."""
    head = [element("th", "Network", scope="col")]
    for method in grid.methods:
        name = escape(METHOD_NAMES.get(method, method))
        head.append(element("th", swatch(method), name, scope="col"))
    bodies = [element("tbody", *_lines(row, grid)) for row in grid.rows]
    table = element("table", element("thead", element("tr", *head)), *bodies, class_="grid")
    return element("div", table, class_="scroll")


def _lines(row: Row, grid: Grid) -> list[str]:
    """The lines of a network; the first bears its name."""
    lines = []
    if any(cell and cell.paper is not None for cell in row.cells):
        label = grid.paper_label + ("" if row.has_runs else " (no runs yet)")
        lines.append(_Line(label, [_paper(cell) for cell in row.cells], "paper"))
    if row.has_runs:
        lines += _figure_lines(row)
    return [line.html(row.label if line is lines[0] else None) for line in lines]


def _figure_lines(row: Row) -> list[_Line]:
    lines = [_Line("best of Phase II", _spreads(row, lambda cell: cell.best))]
    if any(cell and cell.paper is not None and cell.runs for cell in row.cells):
        lines.append(_Line("best − paper", [_difference(cell) for cell in row.cells], "quiet"))
    lines.append(_Line("last epoch", _spreads(row, lambda cell: cell.last)))
    if any(cell and (cell.paper_top5 or cell.last_top5) for cell in row.cells):
        lines += _top5_lines(row)
    lines.append(_Line("seeds", [_seeds(cell) for cell in row.cells], "quiet"))
    return lines


def _top5_lines(row: Row) -> list[_Line]:
    papers = [_number(cell.paper_top5 if cell else None) for cell in row.cells]
    return [
        _Line("top-5, paper", papers, "paper"),
        _Line("top-5, best", _spreads(row, lambda cell: cell.best_top5)),
        _Line("top-5, last", _spreads(row, lambda cell: cell.last_top5)),
    ]


def _spreads(row: Row, figure: Figure) -> list[str]:
    return [_spread(row, cell, figure) for cell in row.cells]


def _spread(row: Row, cell: Cell | None, figure: Figure) -> str:
    if cell is None:
        return NOTHING
    spread = figure(cell)
    if spread is None:
        return MISSING
    text = escape(str(spread))
    return element("td", element("strong", text) if _is_ahead(row, cell, figure) else text)


def _is_ahead(row: Row, cell: Cell, figure: Figure) -> bool:
    """Whether the cell has the higher mean of BinaryRelax and its baseline."""
    rivals = {**BASELINES, **{baseline: relaxed for relaxed, baseline in BASELINES.items()}}
    rival = row.cell(rivals.get(cell.method, ""))
    other = figure(rival) if rival else None
    return other is not None and figure(cell).mean > other.mean


def _paper(cell: Cell | None) -> str:
    return _number(cell.paper if cell else None)


def _number(value: float | None) -> str:
    return NOTHING if value is None else element("td", f"{value:.2f}")


def _difference(cell: Cell | None) -> str:
    best = cell.best if cell else None
    if best is None or cell.paper is None:
        return NOTHING
    difference = best.mean - cell.paper
    kind = "higher" if difference >= 0 else "lower"
    return element("td", f"{difference:+.2f}".replace("-", "−"), class_=kind)


def _seeds(cell: Cell | None) -> str:
    return NOTHING if cell is None else element("td", str(len(cell.runs)))
