"""Every picture of README and docs, drawn from committed JSON files, by its name in docs/images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure

from binaryrelax.lab.drawing import figure_bytes
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.report.picture import picture_bytes
from binaryrelax.lab.theory.catalogue import PARTS, Part
from figures import finding_pictures
from figures.common import RESULTS, read
from figures.evidence import runs_of


def demo() -> bytes:
    """The five networks of the demo, all seeds, and histograms of the weights of seed 0."""
    groups = []
    for method in PAPER_METHODS:
        first, *others = runs_of(f"demo-{method}").values()
        histograms = read(RESULTS / "findings" / "histograms" / f"demo-{method}.json")
        groups.append([replace(first, histograms=histograms), *others])
    return picture_bytes(groups)


def theory(part: Part) -> bytes:
    """A figure of docs/theory.md."""
    return figure_bytes(part.draw(read(RESULTS / "theory" / f"{part.name}.json")))


def finding(draw: Callable[[], Figure]) -> bytes:
    """A figure of docs/findings.md."""
    return figure_bytes(draw())


PICTURES: dict[str, Callable[[], bytes]] = {
    "demo": demo,
    **{f"theory/{part.name}": partial(theory, part) for part in PARTS if part.draw},
    **{f"findings/{name}": partial(finding, draw) for name, draw in finding_pictures.ALL.items()},
}
