"""Whole networks in our runtime and in those that a user would pick instead: times and errors."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure as Drawing

from binaryrelax_lab.report.drawing import COLOURS, GRID, INK, legend, panels, title
from binaryrelax_lab.report.figures.evidence import Evidence, Record
from binaryrelax_lab.report.figures.markdown import NOT_MEASURED, NOTHING, table
from binaryrelax_lab.report.figures.measured_networks import (
    MODES,
    ONE_IMAGE,
    WIDTHS,
    Engines,
    MeasuredNetworks,
    Title,
    advantage,
    best,
    ours,
)

PRECISION_OF = {"fast": "int8", "exact": "float32"}  # what each mode of ours stands beside


def summary(evidence: Evidence) -> str:
    """One image, a row for each network: ours beside the best of the others."""
    measured = MeasuredNetworks.of(evidence)
    rows = [
        (str(name), *_others(engines), *(_both_widths(engines, mode) for mode in PRECISION_OF))
        for name, engines in measured.times(ONE_IMAGE).items()
    ]
    headings = ["one image, ms", "torch float32", "best float32", "best int8"]
    headings += [f"ours, {mode}" for mode in PRECISION_OF]
    return f"{table(headings, rows)}\n\n{measured.machine}"


def _both_widths(engines: Engines, mode: str) -> str:
    return " / ".join(_milliseconds(engines, ours(mode, weights)) for weights in WIDTHS)


def _others(engines: Engines) -> list[str]:
    bests = [best(engines, precision) for precision in ("float32", "int8")]
    named = [f"{_milliseconds(engines, name)} ({_maker(name)})" if name else NOTHING
             for name in bests]  # fmt: skip
    return [_milliseconds(engines, "torch float32"), *named]


def _maker(engine: str) -> str:
    """Without its precision."""
    return engine.rpartition(" ")[0]


def _milliseconds(engines: Engines, engine: str) -> str:
    return f"{1e3 * engines[engine]['seconds']:.2f}" if engine in engines else NOTHING


def ratios(evidence: Evidence) -> str:
    """How many times faster ours is than the best int8 and the best float32 engine."""
    measured = MeasuredNetworks.of(evidence)
    rows = [
        (str(name), str(batch), *(_ratios(engines, *pair) for pair in PRECISION_OF.items()))
        for batch in measured.batches
        for name, engines in measured.times(batch).items()
    ]
    headings = [f"{mode} over {precision}" for mode, precision in PRECISION_OF.items()]
    return table(("network", "images", *headings), rows)


def _ratios(engines: Engines, mode: str, precision: str) -> str:
    found = (advantage(engines, ours(mode, weights), precision) for weights in WIDTHS)
    return " / ".join(map(ratio_text, found))


def ratio_text(ratio: float | None) -> str:
    """How many times faster; below 1, slower."""
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def in_short(evidence: Evidence) -> str:
    """How often ours is ahead, and from where to where its advantage goes."""
    return " ".join(_in_short(MeasuredNetworks.of(evidence), mode) for mode in MODES[::-1])


def ahead(evidence: Evidence) -> str:
    """The same in a few words."""
    measured = MeasuredNetworks.of(evidence)
    return "; ".join(
        f"`{mode}` ahead of the best {precision} engine in "
        f"{sum(ratio > 1 for ratio in found)} of {len(found)} cases"
        for mode, precision in PRECISION_OF.items()
        if (found := _advantages(measured, mode))
    )


def _advantages(measured: MeasuredNetworks, mode: str) -> list[float]:
    """Of one image, over all networks and widths."""
    return [
        ratio
        for engines in measured.times(ONE_IMAGE).values()
        for weights in WIDTHS
        if (ratio := advantage(engines, ours(mode, weights), PRECISION_OF[mode])) is not None
    ]


def _in_short(measured: MeasuredNetworks, mode: str) -> str:
    precision, found = PRECISION_OF[mode], _advantages(measured, mode)
    if not found:
        return f"No engine in {precision} was there to compare with."
    num_ahead = sum(ratio > 1 for ratio in found)
    return (
        f"Mode `{mode}` runs one image {min(found):.2f} to {max(found):.2f} times as fast as the "
        f"best {precision} engine; it is ahead in {num_ahead} of {len(found)} cases."
    )


def all_times(evidence: Evidence) -> str:
    """Every engine and batch size: the least time and the median."""
    measured = MeasuredNetworks.of(evidence)
    return "\n\n".join(
        _table(measured.times(batch), f"{_images(batch)}, ms: least / median", _least_and_median)
        for batch in measured.batches
    )


def calibration(evidence: Evidence) -> str:
    """How much time calibration saves, by network and number of images."""
    measured = MeasuredNetworks.of(evidence)
    rows = [
        (str(name), str(batch), *(_saved(engines, weights) for weights in WIDTHS))
        for batch in measured.batches
        for name, engines in measured.times(batch).items()
    ]
    if all(cell == NOTHING for row in rows for cell in row[2:]):
        return NOT_MEASURED
    return table(("time without calibration", "images", *WIDTHS), rows)


def _saved(engines: Engines, weights: str) -> str:
    calibrated, not_calibrated = ours("fast", weights), ours("fast, not calibrated", weights)
    if not {calibrated, not_calibrated} <= engines.keys():
        return NOTHING
    return ratio_text(engines[not_calibrated]["seconds"] / engines[calibrated]["seconds"])


def errors(evidence: Evidence) -> str:
    """Every engine: the error of its output for one image."""
    networks = MeasuredNetworks.of(evidence).times(ONE_IMAGE)
    return _table(networks, "error of the output", lambda record: f"{record['error']:.0e}")


def _table(networks: dict[Title, Engines], heading: str, cell: Callable[[Record], str]) -> str:
    every = dict.fromkeys(engine for engines in networks.values() for engine in engines)
    rows = [
        (name, *(cell(e[name]) if name in e else NOTHING for e in networks.values()))
        for name in every
    ]
    return table((heading, *map(str, networks)), rows)


def _least_and_median(record: Record) -> str:
    return f"{1e3 * record['seconds']:.2f} / {1e3 * record['median_seconds']:.2f}"


def _images(batch: int) -> str:
    return "one image" if batch == ONE_IMAGE else f"{batch} images"


def picture(evidence: Evidence) -> Drawing:
    """One image: how many times faster than the best int8 engine each one is."""
    networks = MeasuredNetworks.of(evidence).times(ONE_IMAGE)
    drawing, [axes] = panels(1, 1, size=(10, 0.85 * len(networks) + 1.6))
    title(axes, "one image: speed, the best int8 engine being 1")
    axes.axvline(1, color=INK, lw=1)
    for name, (mark, colour, choose) in MARKS.items():
        points = [
            (ratio, -row)
            for row, engines in enumerate(networks.values())
            if (ratio := advantage(engines, choose(engines) or "", "int8")) is not None
        ]
        axes.plot(*zip(*points, strict=True), mark, color=colour, label=name, ms=9, ls="")
    axes.set_yticks([-row for row in range(len(networks))], list(map(str, networks)))
    axes.set_xscale("log")
    axes.set_xticks(TICKS, [f"{tick:g}×" for tick in TICKS])
    axes.minorticks_off()
    axes.set_ylim(0.5 - len(networks), 0.5)
    axes.grid(axis="x", color=GRID, lw=0.8)
    legend(axes, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
    return drawing


TICKS = (0.1, 0.2, 0.5, 1, 1.5, 2, 3)
MARKS: dict[str, tuple[str, str, Callable[[Engines], str | None]]] = {
    "ours, fast, 1 bit": ("o", COLOURS["binary"], lambda _: ours("fast", "1 bit")),
    "ours, fast, ternary": ("D", COLOURS["ternary"], lambda _: ours("fast", "ternary")),
    "ours, exact, 1 bit": ("s", COLOURS["bwn"], lambda _: ours("exact", "1 bit")),
    "ours, exact, ternary": ("s", COLOURS["twn"], lambda _: ours("exact", "ternary")),
    "best float32 engine": ("|", INK, lambda engines: best(engines, "float32")),
    "torch float32": ("x", COLOURS["float"], lambda _: "torch float32"),
}
PICTURES = {"evidence/networks": picture}
SECTIONS = {
    "networks-summary": summary,
    "networks-in-short": in_short,
    "networks-ahead": ahead,
    "networks-ratios": ratios,
    "networks-times": all_times,
    "networks-calibration": calibration,
    "networks-errors": errors,
}
