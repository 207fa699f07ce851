"""Tables of networks by methods: the paper's figures and ours, line by line, also as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binaryrelax_lab.recipes import METHOD_NAMES
from binaryrelax_lab.report.rendering import markdown
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.grids import BASELINE_OF, Cell, Grid, Row
from binaryrelax_lab.results.statistics import (
    Figure,
    Spread,
    best,
    counted,
    differences,
    last,
    last_recalibrated,
)

TEMPLATE = "tables.md"
NEAR = 0.3  # points below the paper's figure
RIVALS = {**BASELINE_OF, **{baseline: relaxed for relaxed, baseline in BASELINE_OF.items()}}


@dataclass(frozen=True)
class Entry:
    """One figure; `kind` is plain, missing, higher or lower; the higher of two rivals is bold."""

    text: str
    kind: str = "plain"
    is_bold: bool = False

    @property
    def markdown(self) -> str:
        """The text as it stands in a table of Markdown."""
        return f"**{self.text}**" if self.is_bold else self.text


@dataclass(frozen=True)
class Line:
    """One figure of a network, for all methods; `kind` is paper, ours or quiet."""

    label: str
    entries: list[Entry]
    kind: str = "ours"


@dataclass(frozen=True)
class Reach:
    """How many cells of BinaryRelax come up to what the paper says, by the best of Phase II."""

    num_cells: int
    num_above: int
    num_near: int
    near: float = NEAR


@dataclass(frozen=True)
class NetworkTable:
    """A table as it is shown: the names of methods, the lines of networks."""

    title: str
    methods: dict[str, str]
    networks: list[tuple[str, list[Line]]]
    reach: Reach


MISSING = Entry("missing", "missing")
NOT_MEASURED = Entry("not measured", "missing")
NOTHING = Entry("-", "missing")


def network_table(grid: Grid) -> NetworkTable:
    """The grid with its figures as text."""
    return NetworkTable(
        title=grid.title,
        methods={method: METHOD_NAMES.get(method, method) for method in grid.methods},
        networks=[(row.label, _lines(row, grid.paper_label)) for row in grid.rows],
        reach=_reach(grid),
    )


def tables_markdown(paper: Sequence[Grid], ours: Sequence[Grid]) -> str:
    """The tables of the paper that have runs, then ours, and how to make any of them again."""
    begun = [grid for grid in paper if any(row.has_runs for row in grid.rows)]
    tables = [[network_table(grid) for grid in grids] for grids in (begun, ours)]
    return markdown(TEMPLATE, "report", *tables, *_notes([*begun, *ours])) + "\n"


def paper_table_markdown(grid: Grid) -> str:
    """A table of the paper beside ours, and how ours does."""
    return markdown(TEMPLATE, "paper_table", network_table(grid))


def against_the_paper(grid: Grid) -> str:
    """A sentence on how many cells of BinaryRelax reach what the paper says."""
    return markdown(TEMPLATE, "against_the_paper", _reach(grid))


def markdown_note(grids: Sequence[Grid]) -> str:
    """How to read the tables, and how to make a cell again, as a list."""
    return markdown(TEMPLATE, "how_to_read", *_notes(grids))


def has_recalibrated(grids: Iterable[Grid]) -> bool:
    """Whether any line shows the network with batch statistics measured anew."""
    return any(cell.spread(last_recalibrated) for cell in _cells(grids))


def _notes(grids: Sequence[Grid]) -> tuple[bool, list[str]]:
    """What the notes depend on: recalibrated networks, and machines whose bits do not repeat."""
    runs = [run for cell in _cells(grids) for run in cell.runs]
    return has_recalibrated(grids), sorted({_machine(run) for run in runs if not _repeats(run)})


def _cells(grids: Iterable[Grid]) -> list[Cell]:
    return [cell for grid in grids for row in grid.rows for cell in row.cells if cell]


def _repeats(run: RunResult) -> bool:
    """Whether the run has the same bits when it is made again, or was made on a CPU.

    There the device is named after the kind of processor, which ends the platform.
    """
    made = run.environment
    is_of_a_cpu = str(made.get("platform")).endswith(str(made.get("device")))
    return made.get("deterministic") is not False or is_of_a_cpu


def _machine(run: RunResult) -> str:
    made = run.environment
    return f"{made.get('device')} in {made.get('precision')} with torch {made.get('torch')}"


def _reach(grid: Grid) -> Reach:
    gaps = [
        round(ours.mean - cell.paper, 2)  # as the tables show it
        for cell in _cells([grid])
        if cell.method in BASELINE_OF and cell.paper is not None and (ours := cell.spread(best))
    ]
    return Reach(len(gaps), sum(gap > 0 for gap in gaps), sum(gap >= -NEAR for gap in gaps))


def _lines(row: Row, paper_label: str) -> list[Line]:
    """The lines of a network; of BinaryRelax and its baseline the higher figure is bold."""
    lines = []
    if any(cell and cell.paper is not None for cell in row.cells):
        label = paper_label + ("" if row.has_runs else " (no runs yet)")
        papers = [_number(cell.paper if cell else None) for cell in row.cells]
        lines.append(Line(label, papers, "paper"))
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
    rival = row.cell(RIVALS.get(cell.method, ""))
    return rival is not None and sum(differences(cell.runs, rival.runs, figure)) > 0


def _number(value: float | None) -> Entry:
    return NOTHING if value is None else Entry(f"{value:.2f}")


def _difference(cell: Cell | None) -> Entry:
    ours = cell.spread(best) if cell else None
    if cell is None or ours is None or cell.paper is None:
        return NOTHING
    gap = Spread(ours.mean - cell.paper, deviation=None, count=1).text(signed=True)
    return Entry(gap, "higher" if gap.startswith("+") else "lower")


def _seeds(cell: Cell | None) -> Entry:
    return NOTHING if cell is None else Entry(str(cell.num_seeds))
