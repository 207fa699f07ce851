"""Every picture of README and docs, drawn from committed JSON files, by its name in docs/images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.report.picture import picture_bytes
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.theory.catalogue import PARTS, Part
from binaryrelax.lab.theory.drawing.style import figure_bytes
from figures import finding_pictures
from figures.common import RESULTS, read


def demo() -> bytes:
    """The five runs of the demo, seed 0, and the histograms of their weights."""
    runs = []
    for method in PAPER_METHODS:
        result = read(RESULTS / "fashion-mnist-12k" / f"demo-{method}" / "seed0.json")
        histograms = read(RESULTS / "findings" / "histograms" / f"demo-{method}.json")
        runs.append(FinishedRun(result, histograms))
    return picture_bytes(runs)


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
