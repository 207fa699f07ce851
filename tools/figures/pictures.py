"""Every picture of README and docs, drawn from committed JSON files, by its name in docs/images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.figure import Figure

from binaryrelax.lab.drawing import figure_bytes
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.report.picture import picture_bytes
from binaryrelax.lab.theory.catalogue import PARTS, Part
from figures import finding_pictures, gain_pictures
from figures.common import RESULTS, read
from figures.evidence import runs_of


@dataclass(frozen=True)
class Picture:
    """What makes the PNG file, what it shows in words, and where the pages that show it find it."""

    draw: Callable[[], bytes]
    words: str
    folder: str = "images"


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


def link(name: str) -> str:
    """The line of a page that shows a picture."""
    picture = PICTURES[name]
    return f"![{picture.words}]({picture.folder}/{name}.png)"


DEMO = (
    "Test accuracy of the demo's five networks, mean of 8 seeds, and a layer's weights sliding "
    "from float into Q"
)
THEORY = {
    "figure1": "Four lines through 0 in the plane, the cells of points nearest to each, and five "
    "projections",
    "figure4": "One step of BinaryConnect that changes line, and the same step from the projection "
    "of y on the new line",
    "alpha": "α at changes of line falls with the learning rate; its range on nine problems",
    "theorem": "Left and right side of the theorem's second conclusion; movement at the beginning "
    "and at the end of the runs",
    "stagnation": "Share of weights that ever change level, and the loss reached, by learning rate",
    "local-minima": "How often each method ends in the best minimizer, with intervals, in six "
    "cases",
    "relaxed-minima": "The number of local minimizers of the relaxed objective grows with λ from 1 "
    "to that of Q",
    "envelope": "Loss, envelope and relaxed objective along a run; the relaxed objective reached "
    "with λ held fixed",
    "hamilton-jacobi": "The envelope at three times with the finite-difference solution, and their "
    "difference on finer grids",
}
FINDINGS = {**gain_pictures.ALL, **finding_pictures.ALL}
PICTURES: dict[str, Picture] = {
    "demo": Picture(demo, DEMO, "docs/images"),
    **{
        f"theory/{part.name}": Picture(partial(theory, part), THEORY[part.name])
        for part in PARTS
        if part.draw
    },
    **{
        f"findings/{name}": Picture(partial(finding, draw), words)
        for name, (draw, words) in FINDINGS.items()
    },
}
SECTIONS = {f"picture-{name.replace('/', '-')}": partial(link, name) for name in PICTURES}
