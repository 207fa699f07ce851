"""The page of the demo: table, curves, and weights sliding into Q."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from binaryrelax.lab.packing import PACKED_HEADINGS, PackedRun
from binaryrelax.lab.report import demo_words as words
from binaryrelax.lab.report.chart import NARROW, WIDE, chart_html, swatch
from binaryrelax.lab.report.curves import Chart, chart_of
from binaryrelax.lab.report.page import Page, details, facts_table, paragraph, section
from binaryrelax.lab.report.panels import caption, histogram_svg, tallest_share
from binaryrelax.lab.report.run_sections import circumstances
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.svg import element
from binaryrelax.lab.report.table import HEADINGS, TableRow, table_row


def write_page(path: Path, runs: list[FinishedRun], packed: Sequence[PackedRun] = ()) -> None:
    """Writes the page about these runs, and the files that they were packed into."""
    demo_page(runs, packed).write(path)


def demo_page(runs: list[FinishedRun], packed: Sequence[PackedRun] = ()) -> Page:
    """The page; every number in it is computed from the runs."""
    rows = [table_row(run) for run in runs]
    moving = [run for run in runs if run.is_quantized and run.histograms]
    chart = chart_of([[run] for run in runs])
    return Page(
        title="binaryrelax demo",
        headline=words.headline(rows),
        lead=words.lead(runs, rows),
        sections=(
            _results_section(runs, rows),
            _curves_section(chart),
            *([_histograms_section(moving)] if moving else []),
            *([_packed_section(packed)] if packed else []),
            _origin_section(runs),
        ),
        data={
            "charts": [chart.as_json()],
            "histograms": [run.histograms for run in moving],
        },
        scripts=("curves.js", "histograms.js"),
    )


def _results_section(runs: list[FinishedRun], rows: list[TableRow]) -> str:
    table = _table(HEADINGS, [(row.method, row.cells()) for row in rows])
    return section("Results", table, paragraph(words.table_note(runs), "note"))


def _packed_section(packed: Sequence[PackedRun]) -> str:
    table = _table(PACKED_HEADINGS, [(run.method, run.cells()) for run in packed])
    return section("As files", table, paragraph(words.packed_note(), "note"))


def _table(headings: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A row per method, in its colour."""
    head = "".join(element("th", escape(heading), scope="col") for heading in headings)
    body = []
    for method, (name, *numbers) in rows:
        title = element("th", swatch(method), escape(name), scope="row")
        body.append(element("tr", title, *[element("td", escape(cell)) for cell in numbers]))
    table = element("table", element("thead", element("tr", head)), element("tbody", *body))
    return element("div", table, class_="scroll")


def _curves_section(chart: Chart) -> str:
    return section(
        "Test accuracy, epoch by epoch",
        paragraph(words.curves_text()),
        chart_html(chart, (WIDE, NARROW), 0),
    )


def _histograms_section(runs: list[FinishedRun]) -> str:
    last = max(len(run.histograms["snapshots"]) for run in runs) - 1
    controls = [
        element("button", "Play", type="button", id="play", aria_pressed="false"),
        f'<input type="range" id="moment" min="0" max="{last}" value="{last}" aria-label="Epoch">',
        element("output", id="when", for_="moment"),
    ]
    return section(
        "The weights slide into Q",
        paragraph(words.histograms_text(runs)),
        element("div", *controls, class_="controls", hidden=""),
        element("noscript", _still_panels(runs)),
        element("div", _panels(runs, -1), class_="panels moving"),
    )


def _panels(runs: list[FinishedRun], position: int) -> str:
    """A histogram of each run at one moment, with its title and a line about the moment."""
    return "".join(
        element(
            "article",
            element("h3", escape(run.label)),
            element("p", escape(caption(run.histograms["snapshots"][position]))),
            histogram_svg(run, position, tallest_share(runs)),
            data_run=index,
        )
        for index, run in enumerate(runs)
    )


def _still_panels(runs: list[FinishedRun]) -> str:
    """What the slider would show, for readers without JavaScript: the beginning, and a third."""
    third = len(runs[0].histograms["snapshots"]) // 3
    return "".join(
        element("div", _panels(runs, position), class_="panels") for position in (0, third)
    )


def _origin_section(runs: list[FinishedRun]) -> str:
    everything = facts_table([run.result["recipe"] | circumstances(run) for run in runs])
    return section(
        "How these numbers were made",
        paragraph(words.method_text(runs)),
        details("Settings, versions and digests of every run", everything),
    )
