"""Two ways of training against each other, a dot for each seed: pictures of docs/findings.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from binaryrelax.lab.drawing import COLOURS, GRID, INK, QUIET, label, panels
from binaryrelax.lab.recipes import find_recipe
from figures.comparisons import (
    Pairs,
    annealed_pairs,
    exact_pairs,
    momentum_pairs,
    one_bit_pairs,
    rival_pairs,
    start_pairs,
    with_runs,
)
from figures.evidence import best, differences, last, recalibrated

SHOWN = {  # a figure of a run, its marker, whether that is filled
    "last epoch": (last, "o", True),
    "last epoch, recalibrated": (recalibrated, "D", True),
    "best epoch of Phase II": (best, "o", False),
}
PLACES = (-0.3, 0.0, 0.3)  # of these within a row
WIDTH = 0.2  # that the seeds of one are spread over
LETTERS = 40  # of a line beside a row


def gains(pairs: Callable[[], Pairs], words: str) -> Figure:
    """One recipe minus another; a row for each pair that has been run."""
    rows = with_runs(pairs())
    figure, (axes,) = panels(1, 1, size=(11, 1.7 + 0.52 * len(rows)))
    for height, names in enumerate(rows.values()):
        colour = COLOURS[find_recipe(names[0]).method]
        for place, (measure, marker, filled) in zip(PLACES, SHOWN.values(), strict=True):
            values = differences(*names, measure)
            _draw_seeds(axes, values, height + place, _dots(marker, colour, filled))
    axes.axvline(0, color=INK, lw=1)
    axes.set_yticks(range(len(rows)), [fill(row, LETTERS, break_on_hyphens=False) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color=GRID)
    label(axes, x=f"{words},\npoints of accuracy; a dot for each seed")
    handles = [
        Line2D([], [], **_dots(marker, QUIET, filled), label=name)
        for name, (_, marker, filled) in SHOWN.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=11)
    return figure


def _draw_seeds(axes: Axes, values: Sequence[float], height: float, style: dict[str, Any]) -> None:
    """The seeds of one figure, a little below each other."""
    if values:  # nothing at all, unclipped, would count as a point in the corner
        gaps = len(values) - 1
        heights = [height + WIDTH * (n - gaps / 2) / max(gaps, 1) for n in range(len(values))]
        axes.plot(values, heights, **style, clip_on=False)


def _dots(marker: str, colour: str, filled: bool) -> dict[str, Any]:
    face = colour if filled else "white"
    return {"ls": "", "marker": marker, "ms": 6.5, "mfc": face, "mec": colour, "mew": 1.4}


ALL: dict[str, tuple[Callable[[], Figure], str]] = {
    "gains": (
        partial(gains, rival_pairs, "BinaryRelax − BinaryConnect"),
        "Gain of BinaryRelax over BinaryConnect for each seed",
    ),
    "annealed": (
        partial(gains, annealed_pairs, "annealed − the paper's schedule"),
        "Gain of annealing the learning rate over the paper's schedule for each seed",
    ),
    "exact": (
        partial(gains, exact_pairs, "exact projection − TWN's threshold"),
        "Gain of the exact ternary projection over TWN's threshold for each seed",
    ),
    "start": (
        partial(gains, start_pairs, "from the float network − from random weights"),
        "Gain of starting from a trained float network for each seed",
    ),
    "momentum": (
        partial(gains, momentum_pairs, "momentum 0.9 − momentum 0.95"),
        "Gain of a momentum of 0.9 over the paper's 0.95 for each seed",
    ),
    "one-bit": (
        partial(gains, one_bit_pairs, "1 bit with BinaryRelax − TWN"),
        "Gain of 1-bit BinaryRelax over TWN for each seed",
    ),
}
