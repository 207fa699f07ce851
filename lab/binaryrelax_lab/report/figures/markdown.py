"""How figures look in Markdown: tables, and accuracies with their spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.results.statistics import LEVEL, chance_of, counted, spread_of, survivors

Columns = Mapping[str, Callable[[Any], str]]  # by its heading, what a column shows of a record
NOTHING = "-"
NOT_MEASURED = "Not measured yet."


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"* {line}" for line in lines)


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table_of(records: Iterable[Any], columns: Columns) -> str:
    """A table with a row for each record."""
    return table(columns, ([cell(record) for cell in columns.values()] for record in records))


def record_table(file: str, *keys: str, columns: Columns) -> Callable[[Evidence], str]:
    """What makes that table of the records that a file holds below these keys."""
    return lambda evidence: table_of(evidence.read(file, *keys), columns)


def spread_text(values: Iterable[float | None], *, signed: bool = False) -> str:
    """Mean ± standard deviation, if there are several; a hyphen if there is nothing."""
    found = spread_of(values)
    return found.text(signed=signed) if found else NOTHING


def mean_text(values: Iterable[float | None], *, signed: bool = True) -> str:
    """The mean alone."""
    found = spread_of(values)
    return replace(found, deviation=None).text(signed=signed) if found else NOTHING


def table_of_gains(headings: Iterable[str], rows: Iterable[Iterable[str | Sequence[float]]]) -> str:
    """A table some of whose cells are differences by seed, and how many are beyond chance.

    Bold are those that hold together, by Holm's correction over all tests of the table.
    """
    cells = [list(row) for row in rows]
    gains = [cell for row in cells for cell in row if not isinstance(cell, str)]
    tests = [(tuple(g), chance) for g in gains if (chance := chance_of(g)) is not None]
    holds = survivors([chance for _, chance in tests])
    clear = {gain for (gain, _), is_clear in zip(tests, holds, strict=True) if is_clear}
    shown = [
        [c if isinstance(c, str) else gain_text(c, is_bold=tuple(c) in clear) for c in row]
        for row in cells
    ]
    alone = sum(chance < LEVEL for _, chance in tests)
    return f"{table(headings, shown)}\n\n{_chance_note(len(tests), alone, sum(holds))}"


def _chance_note(num_tests: int, num_alone: int, num_together: int) -> str:
    if not num_tests:
        return "No cell has three seeds: each may be luck."
    return (
        f"{counted(num_tests, 'test')} with three seeds or more. p < {LEVEL:g} alone: {num_alone}. "
        f"After Holm's correction: {num_together} (bold)."
    )


def gain_text(values: Sequence[float], *, is_bold: bool = False) -> str:
    """Mean ± deviation of differences, in how many seeds above zero; of one seed the value."""
    if not values:
        return NOTHING
    shown = spread_text(values, signed=True)
    if len(values) == 1:
        return shown
    ahead = sum(value > 0 for value in values)
    return f"{f'**{shown}**' if is_bold else shown} ({ahead} of {len(values)})"


def range_text(values: Sequence[float], *, signed: bool = True) -> str:
    """The least and the largest value; one of them if they look the same."""
    if not values:
        return NOTHING
    least, most = (spread_text([end], signed=signed) for end in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def chance_text(chance: float) -> str:
    """A p with three digits."""
    return f"{chance:.3f}" if chance >= 0.001 else "< 0.001"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * share:.{digits}f} %"
