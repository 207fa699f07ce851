"""The report on a folder of results: the paper's tables and curves beside ours."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

from binaryrelax.lab.engine import write_atomically
from binaryrelax.lab.report import results_words as words
from binaryrelax.lab.report.chart import HALF, chart_html
from binaryrelax.lab.report.collection import Collection, collect_runs
from binaryrelax.lab.report.curves import Chart, chart_of
from binaryrelax.lab.report.grid_table import grid_html, grid_markdown
from binaryrelax.lab.report.grids import Grid, Row, Runs, by_recipe, our_grids, paper_grids
from binaryrelax.lab.report.page import Page, details, paragraph, section
from binaryrelax.lab.report.run_sections import recipe_section
from binaryrelax.lab.report.svg import element

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
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; give the name of a file")
    collection = collect_runs(folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".md":
        write_atomically(out, tables_markdown(collection).encode())
    else:
        results_page(collection).write(out)
    num_recipes = len({run.name for run in collection.runs})
    return ReportSummary(len(collection.runs), num_recipes, tuple(collection.notes))


def tables_markdown(collection: Collection) -> str:
    """The tables that have runs, and how to make any of them again."""
    runs = by_recipe(collection.runs)
    grids = [grid for grid in paper_grids(runs) if any(row.has_runs for row in grid.rows)]
    parts = [f"## {grid.title}\n\n{paper_table_markdown(grid)}" for grid in grids]
    ours = our_grids(runs)
    parts += [words.ours_text()] if ours else []
    parts += [f"## {grid.title}\n\n{grid_markdown(grid)}" for grid in ours]
    return "\n\n".join([*parts, words.markdown_note([*grids, *ours])]) + "\n"


def paper_table_markdown(grid: Grid) -> str:
    """A table of the paper beside ours, and how ours does."""
    return f"{grid_markdown(grid)}\n\n{words.against_the_paper(grid)}"


def results_page(collection: Collection) -> Page:
    """The page; every number in it but the paper's is computed from the runs."""
    runs = by_recipe(collection.runs)
    paper, ours = paper_grids(runs), our_grids(runs)
    charts: list[Chart] = []
    parts = {
        "Notes": _notes(collection.notes),
        **{grid.title.partition(":")[0]: _table(grid) for grid in paper},
        "Beyond the paper": _our_tables(ours),
        "Curves": _curves([*paper, *ours], charts),
        "Every run": _runs(runs),
        "Origin": section("How these numbers were made", paragraph(words.origin(runs))),
    }
    return Page(
        title="binaryrelax report",
        headline=words.headline(runs, paper, ours),
        lead=words.lead(runs, paper, ours),
        sections=(
            _links(parts),
            paragraph(words.tables_note([*paper, *ours]), "note"),
            *_anchored(parts),
        ),
        data={"charts": [chart.as_json() for chart in charts]},
        scripts=("curves.js", "runs.js"),
    )


def _links(parts: dict[str, str]) -> str:
    """Jumps to the parts of a long page, to those that there are."""
    present = [name for name, part in parts.items() if part]
    return element("nav", *[element("a", name, href=f"#{_anchor(name)}") for name in present])


def _anchored(parts: dict[str, str]) -> list[str]:
    return [element("div", part, id=_anchor(name)) for name, part in parts.items() if part]


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _table(grid: Grid) -> str:
    return section(grid.title, grid_html(grid), paragraph(words.against_the_paper(grid), "note"))


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    items = [element("li", escape(note)) for note in notes]
    return section("Left out, or worth a second look", element("ul", *items))


def _our_tables(grids: list[Grid]) -> str:
    """Tables that the paper does not have, in one section."""
    if not grids:
        return ""
    parts = [element("h3", escape(grid.title)) + grid_html(grid) for grid in grids]
    return section("Beyond the paper", paragraph(words.ours_text()), *parts)


def _curves(grids: list[Grid], charts: list[Chart]) -> str:
    """The curves of each network that has any; their data is added to `charts`."""
    parts = []
    for grid in grids:
        for row in grid.rows:
            panels = _row_charts(row, charts)
            if panels:
                title = element("b", escape(row.label)) + escape(f" {grid.title}")
                is_open = "" if len(parts) < NUM_OPEN else None
                parts.append(details(title, element("div", *panels, class_="pair"), open=is_open))
    if not parts:
        return ""
    text = paragraph(words.curves_text())
    return section("Accuracy, epoch by epoch", text, *parts)


def _row_charts(row: Row, charts: list[Chart]) -> list[str]:
    """Two charts, binary and ternary, as in the paper's Figure 3, as far as there are runs."""
    listed = {method for methods in PANELS for method in methods} | {"float"}
    unlisted = tuple(c.method for c in row.cells if c and c.method not in listed)
    panels = []
    for methods in (*PANELS, unlisted):
        cells = [cell for method in methods if (cell := row.cell(method))]
        if cells:
            charts.append(chart_of([cell.runs for cell in cells]))
            panels.append(chart_html(charts[-1], (HALF,), len(charts) - 1))
    return panels


def _runs(runs: Runs) -> str:
    search = (
        '<input type="search" id="filter" placeholder="show recipes whose name contains …" '
        'aria-label="Show recipes whose name contains" hidden>'
    )
    parts = [recipe_section(name, group, i) for i, (name, group) in enumerate(runs.items())]
    return section("Every run", search, *parts)
