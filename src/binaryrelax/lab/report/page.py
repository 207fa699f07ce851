"""The report as one HTML file that needs no network: style, script, drawings and data inside."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine import write_atomically
from binaryrelax.lab.report import words
from binaryrelax.lab.report.curves import curves_svg
from binaryrelax.lab.report.panels import caption, histogram_svg, tallest_share
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.svg import element
from binaryrelax.lab.report.table import HEADINGS, TableRow, table_row

WIDE, NARROW = 960, 380  # the style sheet shows one of the two, by the width of the window


def write_page(path: Path, runs: list[FinishedRun]) -> None:
    """Writes the page about these runs."""
    write_atomically(path, page_html(runs).encode())


def page_html(runs: list[FinishedRun]) -> str:
    """The page; every number in it is computed from the runs."""
    rows = [table_row(run) for run in runs]
    moving = [run for run in runs if run.is_quantized]
    blanks = {
        "css": _beside("page.css"),
        "script": _beside("page.js"),
        "headline": escape(words.headline(rows)),
        "lead": escape(words.lead(runs, rows)),
        "table": _table(rows),
        "table_note": escape(words.table_note(runs)),
        "curves_text": escape(words.curves_text()),
        "legend": "".join(_legend_button(run) for run in runs),
        "curves": curves_svg(runs, WIDE) + curves_svg(runs, NARROW),
        "histograms_text": escape(words.histograms_text(moving)),
        "last_moment": str(max(len(run.histograms["snapshots"]) for run in runs) - 1),
        "panels": _panels(moving, -1),
        "still_panels": _still_panels(moving),
        "method_text": escape(words.method_text(runs)),
        "details": _details(runs),
        "data": _script_data(runs),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda blank: blanks[blank[1]], _beside("page.html"))


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _table(rows: list[TableRow]) -> str:
    head = "".join(element("th", escape(heading), scope="col") for heading in HEADINGS)
    body = []
    for row in rows:
        name, *numbers = row.cells()
        title = element("th", _swatch(row.method), escape(name), scope="row")
        body.append(element("tr", title, *[element("td", escape(cell)) for cell in numbers]))
    return element("table", element("thead", element("tr", head)), element("tbody", *body))


def _swatch(method: str) -> str:
    return element("span", class_=f"swatch {method}")


def _legend_button(run: FinishedRun) -> str:
    return element(
        "button",
        _swatch(run.method),
        escape(run.label),
        type="button",
        aria_pressed="true",
        data_method=run.method,
    )


def _panels(runs: list[FinishedRun], position: int) -> str:
    """A histogram of each run at one moment, with its title and a line about the moment."""
    return "".join(
        element(
            "article",
            element("h3", escape(run.label)),
            element("p", escape(caption(run.histograms["snapshots"][position]))),
            histogram_svg(run, position, tallest_share(runs)),
            data_method=run.method,
        )
        for run in runs
    )


def _still_panels(runs: list[FinishedRun]) -> str:
    """What the slider would show, for readers without JavaScript: beginning and middle."""
    if not runs:
        return ""
    middle = len(runs[0].histograms["snapshots"]) // 3
    return "".join(
        element("div", _panels(runs, position), class_="panels") for position in (0, middle)
    )


def _details(runs: list[FinishedRun]) -> str:
    """A table of everything else that the result files say about the runs."""
    columns = [_facts(run.result) for run in runs]
    names = list(dict.fromkeys(name for facts in columns for name in facts))
    rows = []
    for name in names:
        cells = [element("td", escape(_shown(facts.get(name)))) for facts in columns]
        rows.append(element("tr", element("th", escape(name), scope="row"), *cells))
    table = element("table", element("tbody", *rows), class_="details")
    return element("div", table, class_="scroll")


def _facts(result: dict[str, Any]) -> dict[str, Any]:
    """The settings and circumstances of a run, by name."""
    return {
        **result["recipe"],
        "seed": result["seed"],
        "seconds": result["seconds"],
        "starts from (sha256)": (result["initial_checkpoint"] or {}).get("digest"),
        "final weights (sha256)": result["weights"]["digest"],
        "in Q": result["summary"]["in_q"],
        **result["environment"],
    }


def _shown(value: Any) -> str:
    """A value as a reader would write it; digests shortened."""
    if value is None:
        return "-"
    if isinstance(value, str) and len(value) == 64:
        return value[:12] + "…"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _script_data(runs: list[FinishedRun]) -> str:
    """The data of the script, safe inside a script element."""
    content = [
        {
            "method": run.method,
            "label": run.label,
            "relaxed": run.is_relaxed,
            "epochs": run.result["epochs"],
            "histograms": run.histograms,
        }
        for run in runs
    ]
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
