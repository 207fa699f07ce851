"""Runs that were watched step by step: weights that flip, and batch statistics behind them."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure as Drawing

from binaryrelax_lab.report.drawing import COLOURS, INK, QUIET, label, legend, panels, title
from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import percent, spread_text, table

NUM_LATE = 10  # epochs at a learning rate, before it falls or training ends


def batch_statistics(evidence: Evidence) -> str:
    """Accuracies over the last epochs of each learning rate, with old and new batch statistics."""
    rows = []
    for record in _flips(evidence):
        for rate, epochs in grouped(record["epochs"], lambda epoch: epoch["lr"]).items():
            late = epochs[-NUM_LATE:]
            flips = 1e4 * fmean(epoch["flips_a_step"] for epoch in late)
            figures = [spread_text(e[key] for e in late) for key in ("accuracy", "recalibrated")]
            rows.append((f"{record['weight_decay']:g}", f"{rate:g}", f"{flips:.1f}", *figures))
    headings = ("weight decay", "learning rate", "of 10,000 weights a step flips")
    return table((*headings, "batch statistics of training", "recalibrated"), rows)


def jumps(evidence: Evidence) -> str:
    """How much of a layer changes in a single step, under both ternary projections."""
    rows = []
    for name, words in (("demo", "the demo"), ("resnet20", "ResNet-20, first epoch")):
        records = evidence.read(f"results/findings/jumps-{name}.json", "records")
        threshold, nearest = (_jumpiest_of_each_size(record["layers"]) for record in records)
        for size in threshold:
            rows.append((words, f"{size:,}", *_jump(threshold[size]), *_jump(nearest[size])))
    columns = ("flips a step, median", "largest", "zeros")
    headings = [f"{who}: {what}" for who in ("TWN", "exact") for what in columns]
    return table(("", "weights of a layer", *headings), rows)


def _jumpiest_of_each_size(layers: list[Record]) -> dict[int, Record]:
    """Of the layers of a size the one in which the largest share changed at once."""
    ordered = sorted(layers, key=lambda layer: layer["level_flips"]["largest"])
    found = {layer["num_weights"]: layer for layer in ordered}
    return dict(sorted(found.items()))


def _jump(layer: Record) -> tuple[str, str, str]:
    flips, zeros = layer["level_flips"], layer["zeros"]
    shown = f"{100 * zeros['least']:.0f} to {percent(zeros['most'], 0)}"
    return percent(flips["median"]), percent(flips["largest"]), shown


def picture(evidence: Evidence) -> Drawing:
    """Weights that flip or wait at the border while the learning rate stays, and the accuracy."""
    records = _flips(evidence)
    first = records[0]
    drawing, (left, middle, right) = panels(1, 3, size=(15, 4.8))
    title(left, "weights that a single step flips")
    title(middle, "weights with |y| below 1 % of the scale")
    title(right, f"test accuracy, weight decay {first['weight_decay']:g}")
    for record, style in zip(records, ("-", "--"), strict=True):
        name = f"weight decay {record['weight_decay']:g}"
        for place, key in ((left, "flips_a_step"), (middle, "at_the_border")):
            place.plot(*_by_epoch(record, key, 100), style, color=COLOURS["bwn"], label=name)
    statistics = {"accuracy": ("batch statistics of training", COLOURS["bwn"])}
    statistics["recalibrated"] = ("recalibrated", INK)
    for key, (name, colour) in statistics.items():
        right.plot(*_by_epoch(first, key), color=colour, label=name)
    left.set_yscale("log")
    left.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3], ["0.003", "0.01", "0.03", "0.1", "0.3"])
    right.set_ylim(78, 91)
    falls = [
        after["epoch"] for before, after in pairwise(first["epochs"]) if after["lr"] < before["lr"]
    ]
    for place, unit in ((left, "of all weights"), (middle, "of all weights"), (right, "of images")):
        label(place, x="epochs trained; dotted: learning rate / 10", y=f"share {unit}, %")
        for epoch in falls:
            place.axvline(epoch, color=QUIET, lw=1, ls=":")
        legend(place)
    return drawing


def _by_epoch(record: Record, key: str, times: float = 1) -> tuple[range, list[float]]:
    values = [times * epoch[key] for epoch in record["epochs"]]
    return range(1, len(values) + 1), values


def _flips(evidence: Evidence) -> Any:
    return evidence.read("results/findings/flips.json", "records")


SECTIONS = {"evidence-statistics": batch_statistics, "evidence-jumps": jumps}
PICTURES = {"evidence/flips": picture}
