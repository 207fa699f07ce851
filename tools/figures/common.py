"""What all figures share: where files are, and how tables look."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from binaryrelax.lab.report.spread import spread_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"


def spread(values: Iterable[float | None], *, signed: bool = False) -> str:
    """Mean ± standard deviation, if there are several; a hyphen if there is nothing."""
    found = spread_of(values)
    return found.text(signed=signed) if found else "-"


def time_or_note(record: dict[str, Any] | None) -> str:
    """Milliseconds, or why there are none."""
    if record is None:
        return "-"
    return f"{1000 * record['seconds']:,.1f} ms" if "seconds" in record else record["note"]


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text())
