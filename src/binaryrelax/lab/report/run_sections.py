"""A part of the page for each recipe, and in it one for each of its runs; closed until clicked."""

from html import escape
from typing import Any

from binaryrelax.lab.report.chart import SMALL, chart_svg, swatch
from binaryrelax.lab.report.curves import chart_of
from binaryrelax.lab.report.page import details, facts_table, shown
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.spread import by_seed, spread_of
from binaryrelax.lab.report.svg import element
from binaryrelax.lab.speech import counted

LAYER_COLUMNS = {
    "num_weights": "weights",
    "distinct_values": "distinct values",
    "num_zeros": "zeros",
    "in_q": "in Q",
    "distance": "distance to Q",
    "bits_per_weight": "bits per weight",
}


def recipe_section(name: str, runs: list[FinishedRun], index: int) -> str:
    """The settings of a recipe, and its runs; `index` tells it from the others on the page."""
    lasts = by_seed(runs, lambda run: run.last)
    seeds = counted(len(lasts), "seed")
    text = f"last epoch {spread_of(lasts.values())} %, {seeds}"
    figures = element("span", escape(text), class_="quiet")
    return details(
        swatch(runs[0].method) + element("b", escape(name)) + " " + figures,
        details("Settings", facts_table([runs[0].result["recipe"]])),
        *[run_section(run, f"run{index}-{number}") for number, run in enumerate(runs)],
        class_="recipe",
        data_name=name,
    )


def run_section(run: FinishedRun, name: str) -> str:
    """Curve, circumstances and layers of a run."""
    summary, seconds = run.result["summary"], run.result.get("seconds")
    in_q = {True: ", in Q", False: ", NOT in Q"}.get(summary.get("in_q"), "")
    best = run.best
    figures = f"last {summary['last']:.2f} %" + ("" if best is None else f", best {best:.2f} %")
    time = f", {seconds:.0f} s" if isinstance(seconds, int | float) else ""
    title = element("b", f"Seed {escape(shown(run.seed))}") + escape(f" {figures}{in_q}{time}")
    drawing = element("div", chart_svg(chart_of([[run]]), SMALL, name), class_="drawing")
    return details(title, drawing, facts_table([circumstances(run)]), _layers(run), class_="run")


def circumstances(run: FinishedRun) -> dict[str, Any]:
    """Where and from what a run was made, by name."""
    result = run.result
    start = result.get("initial_checkpoint") or {}
    return {
        "seed": run.seed,
        "seconds": result.get("seconds"),
        "last": result["summary"]["last"],
        "last, recalibrated": run.last_recalibrated,
        "best of Phase II": result["summary"].get("best_phase_two"),
        "mean of the last 5 epochs": result["summary"].get("mean_last_5"),
        "in Q": result["summary"].get("in_q"),
        "starts from": start.get("name"),
        "starts from (sha256)": start.get("digest"),
        "final weights (sha256)": (result.get("weights") or {}).get("digest"),
        **(result.get("environment") or {}),
        "file": run.source or None,
    }


def _layers(run: FinishedRun) -> str:
    """A line for each layer: how many values it takes, and whether these are in Q."""
    layers = (run.result.get("weights") or {}).get("layers") or []
    if not layers:
        return ""
    columns = [key for key in LAYER_COLUMNS if any(layer.get(key) is not None for layer in layers)]
    heads = [element("th", heading) for heading in ("layer", *(LAYER_COLUMNS[c] for c in columns))]
    rows = []
    for layer in layers:
        cells = [element("td", escape(_cell(layer.get(column)))) for column in columns]
        rows.append(element("tr", element("th", escape(shown(layer.get("name")))), *cells))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return details(f"{len(layers)} layers", element("div", table, class_="scroll layers"))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else shown(value)
