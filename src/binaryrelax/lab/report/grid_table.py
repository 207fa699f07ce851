"""A grid as a table of HTML or Markdown: the paper's figure and ours below each other."""

import re
from html import escape

from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.report.chart import swatch
from binaryrelax.lab.report.grid_lines import Entry, Line, lines_of
from binaryrelax.lab.report.grids import Grid, Row
from binaryrelax.lab.report.svg import element


def grid_html(grid: Grid) -> str:
    """The table as HTML."""
    head = [element("th", "Network", scope="col")]
    for method in grid.methods:
        name = escape(METHOD_NAMES.get(method, method))
        head.append(element("th", swatch(method), name, scope="col"))
    bodies = [element("tbody", *_html_rows(row, grid)) for row in grid.rows]
    table = element("table", element("thead", element("tr", *head)), *bodies, class_="grid")
    return element("div", table, class_="scroll")


def grid_markdown(grid: Grid) -> str:
    """The table as Markdown."""
    names = [_plain_markdown(METHOD_NAMES.get(method, method)) for method in grid.methods]
    rows = [["Network", "", *names], ["---"] * (2 + len(names))]
    for row in grid.rows:
        for number, line in enumerate(lines_of(row, grid)):
            name = f"**{_plain_markdown(row.label)}**" if number == 0 else ""
            rows.append([name, line.label, *(_in_markdown(entry) for entry in line.entries)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _html_rows(row: Row, grid: Grid) -> list[str]:
    """The lines of a network; the first bears its name."""
    lines = lines_of(row, grid)
    return [_html_row(line, row.label if line is lines[0] else None) for line in lines]


def _html_row(line: Line, name: str | None) -> str:
    title = "" if name is None else element("b", escape(name))
    label = element("th", title, escape(line.label), scope="row")
    return element("tr", label, *map(_in_html, line.entries), class_=line.kind)


def _in_html(entry: Entry) -> str:
    text = escape(entry.text)
    kind = None if entry.kind == "plain" else entry.kind
    return element("td", element("strong", text) if entry.is_bold else text, class_=kind)


def _plain_markdown(text: str) -> str:
    """Names may come from a file of anybody: nothing in them is markup, or ends a cell."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _in_markdown(entry: Entry) -> str:
    return f"**{entry.text}**" if entry.is_bold else entry.text
