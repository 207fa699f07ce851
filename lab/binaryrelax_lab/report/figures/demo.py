"""The demo over all of its seeds: the table and the picture of the README."""

from __future__ import annotations

from dataclasses import replace

from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.report.demo_picture import picture_bytes
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import spread_text, table
from binaryrelax_lab.report.figures.schedules import DEMO
from binaryrelax_lab.results import WeightHistograms
from binaryrelax_lab.results.statistics import best, last

LABELS = {
    "float": "float",
    "bwn": "1 bit, BWN",
    "binary": "1 bit, BinaryRelax",
    "twn": "ternary, TWN",
    "ternary": "ternary, BinaryRelax",
}


def seeds(evidence: Evidence) -> str:
    """Accuracy of the demo's five networks at two lengths."""
    rows = []
    for method, label in LABELS.items():
        short = DEMO.with_method(method)
        lengths = [evidence.runs_of(name) for name in (short, short.with_epochs(12))]
        cells = [spread_text(map(f, runs)) for runs in lengths for f in (last, best)]
        in_q = frozenset(run.summary.in_q for runs in lengths for run in runs)
        ends = {frozenset([True]): "yes", frozenset([None]): "-"}.get(in_q, "NO")
        rows.append((label, *cells, " + ".join(str(len(runs)) for runs in lengths), ends))
    columns = [f"{word}, {n} epochs" for n in (10, 12) for word in ("last", "best of Phase II")]
    return table(("method", *columns, "seeds", "ends in Q"), rows)


def picture(evidence: Evidence) -> bytes:
    """The five networks, all seeds, and histograms of the weights of seed 0."""
    groups = []
    for method in PAPER_METHODS:
        first, *others = evidence.runs_of(DEMO.with_method(method))
        content = evidence.read(f"results/findings/histograms/demo-{method}.json")
        groups.append([replace(first, histograms=WeightHistograms.from_json(content)), *others])
    return picture_bytes(groups)


SECTIONS = {"demo-seeds": seeds}
