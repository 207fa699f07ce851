"""The tables of the report: networks down, methods across, each cell the runs of one recipe."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from binaryrelax_lab.recipes import (
    ALL_RECIPES,
    METHOD_NAMES,
    NETWORK_NAMES,
    OUR_TABLES,
    TABLES,
    RecipeTable,
    find_recipe,
)
from binaryrelax_lab.results.run_result import RunResult
from binaryrelax_lab.results.statistics import (
    Figure,
    Spread,
    by_seed,
    differences,
    last,
    spread_of,
)

BASELINE_OF = {"binary": "bwn", "ternary": "twn"}
Runs = dict[str, list[RunResult]]


@dataclass(frozen=True)
class Cell:
    """The runs of one recipe, and what the paper reports."""

    method: str
    runs: list[RunResult]
    paper: float | None = None
    paper_top5: float | None = None

    @property
    def num_seeds(self) -> int:
        """How many seeds the runs have; several may have the same."""
        return len({run.seed for run in self.runs})

    def spread(self, figure: Figure) -> Spread | None:
        """The figure over the seeds that have it."""
        return spread_of(by_seed(self.runs, figure).values())


@dataclass(frozen=True)
class Row:
    """A network with its cells, in the order of the methods; None where there is no recipe."""

    label: str
    cells: list[Cell | None]

    @property
    def has_runs(self) -> bool:
        """Whether any cell is filled."""
        return any(cell and cell.runs for cell in self.cells)

    def cell(self, method: str) -> Cell | None:
        """The cell of the method, if it has runs."""
        return next((c for c in self.cells if c and c.method == method and c.runs), None)


@dataclass(frozen=True)
class Grid:
    """A table; its rows have as many cells as it has methods."""

    title: str
    methods: list[str]
    rows: list[Row]
    paper_label: str = "paper"


@dataclass(frozen=True)
class Comparison:
    """BinaryRelax and its baseline on one network, both trained."""

    relaxed: Cell
    baseline: Cell

    def gains(self, figure: Figure) -> list[float]:
        """BinaryRelax minus its baseline, for each seed that both have."""
        return differences(self.relaxed.runs, self.baseline.runs, figure)

    def is_ahead(self, figure: Figure) -> bool:
        """Whether BinaryRelax has the higher mean over these seeds."""
        return sum(self.gains(figure)) > 0


def by_recipe(runs: Iterable[RunResult]) -> Runs:
    """The runs of each recipe by its name, in the order of the tables, seeds in order."""
    order = {recipe.name: position for position, recipe in enumerate(ALL_RECIPES)}
    found: Runs = {}
    for run in sorted(runs, key=lambda r: (order.get(r.name, len(order)), r.name, r.seed)):
        found.setdefault(run.name, []).append(run)
    return found


def paper_grids(runs: Runs) -> list[Grid]:
    """The paper's three tables, with all their cells."""
    return [_grid(table, runs) for table in TABLES.values()]


def our_grids(runs: Runs) -> list[Grid]:
    """Our own tables as far as there are runs, and a last one for all other recipes.

    A row needs a run that no table before has shown: several begin with the same float network.
    """
    grids, known = [], _names(TABLES.values())
    for table in OUR_TABLES.values():
        new = runs.keys() - known
        rows = [row for row in table.rows if any(recipe.name in new for recipe in row)]
        if rows:
            grids.append(_grid(replace(table, rows=tuple(rows)), runs))
        known |= _names([table])
    others = {name: group for name, group in runs.items() if name not in known}
    return [*grids, _grid_of_others(others)] if others else grids


def comparisons(grids: Iterable[Grid]) -> list[Comparison]:
    """Every pair of BinaryRelax and baseline that has been trained with a common seed.

    Each once: a table may repeat the cells of another.
    """
    pairs = [
        Comparison(ours, theirs)
        for grid in grids
        for row in grid.rows
        for relaxed, baseline in BASELINE_OF.items()
        if (ours := row.cell(relaxed)) and (theirs := row.cell(baseline))
    ]
    unique = {(pair.relaxed.runs[0].name, pair.baseline.runs[0].name): pair for pair in pairs}
    return [pair for pair in unique.values() if pair.gains(last)]


def _grid(table: RecipeTable, runs: Runs) -> Grid:
    """The table with its runs; beside our schedule the paper's figures are those of its own."""
    rows = []
    for recipes in table.rows:
        cells: list[Cell | None] = []
        for recipe in recipes:
            paper = find_recipe(recipe.name.without_variation())
            figures = (paper.paper_accuracy, paper.paper_accuracy_top5)
            cells.append(Cell(recipe.method, runs.get(recipe.name, []), *figures))
        rows.append(Row(NETWORK_NAMES[recipes[0].network], cells))
    label = "paper, its schedule" if table.recipes[0].name.variation else "paper"
    return Grid(table.title, list(table.methods), rows, label)


def _grid_of_others(runs: Runs) -> Grid:
    """Recipes that no table knows: other numbers of epochs, other settings."""
    present = {group[0].method for group in runs.values()}
    methods = [method for method in METHOD_NAMES if method in present]
    methods += sorted(present - METHOD_NAMES.keys())
    families: dict[str, dict[str, Cell]] = {}
    for group in runs.values():
        method = group[0].method
        family = group[0].name.without_method()
        families.setdefault(family, {})[method] = Cell(method, group)
    rows = [Row(family, [cells.get(m) for m in methods]) for family, cells in families.items()]
    return Grid("Other lengths and settings", methods, rows)


def _names(tables: Iterable[RecipeTable]) -> set[str]:
    return {recipe.name for table in tables for recipe in table.recipes}
