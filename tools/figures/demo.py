"""Accuracy of the demo over seeds."""

from __future__ import annotations

from figures.common import spread, table
from figures.evidence import best, last, runs_of

METHODS = {
    "demo-float": "float",
    "demo-bwn": "1 bit, BWN",
    "demo-binary": "1 bit, BinaryRelax",
    "demo-twn": "ternary, TWN",
    "demo-ternary": "ternary, BinaryRelax",
}


def demo_seeds() -> str:
    """Accuracy of the demo's five networks over all seeds there are, at two lengths."""
    rows = []
    for recipe, label in METHODS.items():
        lengths = [runs_of(name).values() for name in (recipe, f"{recipe}@12")]
        cells = [spread(figure(run) for run in runs) for runs in lengths for figure in (last, best)]
        in_q = {run.result["summary"]["in_q"] for runs in lengths for run in runs}
        ends = {frozenset([True]): "yes", frozenset([None]): "-"}.get(frozenset(in_q), "NO")
        rows.append((label, *cells, " + ".join(str(len(runs)) for runs in lengths), ends))
    columns = [f"{word}, {n} epochs" for n in (10, 12) for word in ("last", "best of Phase II")]
    return table(("method", *columns, "seeds", "ends in Q"), rows)


SECTIONS = {"demo-seeds": demo_seeds}
