"""A page as one HTML file that needs no network: style, script, drawings and data inside."""

import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine import write_atomically
from binaryrelax.lab.report.svg import element


@dataclass(frozen=True)
class Page:
    """What differs from page to page.

    Args:
        sections: as HTML.
        data: what the scripts read, as one JSON object.
        scripts: the names of the files that are put into the page, after ``page.js``.
    """

    title: str
    headline: str
    lead: str
    sections: tuple[str, ...]
    data: dict[str, Any]
    scripts: tuple[str, ...]

    def html(self) -> str:
        """The whole file."""
        blanks = {
            "title": escape(self.title),
            "css": _beside("page.css"),
            "headline": escape(self.headline),
            "lead": escape(self.lead),
            "sections": "\n".join(self.sections),
            "data": _script_data(self.data),
            "script": "\n".join(_beside(name) for name in ("page.js", *self.scripts)),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda blank: blanks[blank[1]], _beside("page.html"))

    def write(self, path: Path) -> None:
        """Writes the file, complete or not at all."""
        write_atomically(path, self.html().encode())


def section(heading: str, *children: str) -> str:
    """A part of the page with its heading."""
    return element("section", element("h2", escape(heading)), *children)


def paragraph(text: str, kind: str | None = None) -> str:
    """A paragraph of plain text."""
    return element("p", escape(text), class_=kind)


def details(summary: str, *children: str, **attributes: object) -> str:
    """A part that a click opens; `summary` is HTML."""
    return element("details", element("summary", summary), *children, **attributes)


def facts_table(columns: list[dict[str, Any]]) -> str:
    """Names down, one column of values for each dictionary."""
    names = list(dict.fromkeys(name for facts in columns for name in facts))
    rows = []
    for name in names:
        cells = [element("td", escape(shown(facts.get(name)))) for facts in columns]
        rows.append(element("tr", element("th", escape(name), scope="row"), *cells))
    table = element("table", element("tbody", *rows), class_="details")
    return element("div", table, class_="scroll")


def shown(value: Any) -> str:
    """A value as a reader would write it; digests shortened."""
    if value is None:
        return "-"
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return value[:12] + "…"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _script_data(content: dict[str, Any]) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
