"""Accuracy of the demo over seeds."""

from __future__ import annotations

from typing import Any

from figures.common import FIGURES, RESULTS, read, spread, table

DEMO = RESULTS / "fashion-mnist-12k"
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
        short, long = demo_summaries(recipe), demo_summaries(f"{recipe}@12")
        cells = [spread([s[key] for s in runs]) for runs in (short, long) for key in FIGURES]
        in_q = {s["in_q"] for s in short + long}
        ends = {frozenset([True]): "yes", frozenset([None]): "-"}.get(frozenset(in_q), "NO")
        rows.append((label, *cells, f"{len(short)} + {len(long)}", ends))
    columns = [f"{word}, {n} epochs" for n in (10, 12) for word in ("last", "best of Phase II")]
    return table(("method", *columns, "seeds", "ends in Q"), rows)


def demo_summaries(recipe: str) -> list[dict[str, Any]]:
    """The summary of each seed's run."""
    return [read(path)["summary"] for path in sorted((DEMO / recipe).glob("seed*.json"))]


SECTIONS = {"demo-seeds": demo_seeds}
