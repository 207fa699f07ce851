"""All that `binaryrelax theory` computes and draws: each part is a JSON file, most have a figure.

The figures are drawn from the JSON files alone, so that a page can never show other numbers.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from binaryrelax.lab.drawing import write_figure
from binaryrelax.lab.jobs import one_thread
from binaryrelax.lab.theory import geometry, local_minima
from binaryrelax.lab.theory.alpha_ranges import alpha_ranges
from binaryrelax.lab.theory.alpha_steps import alpha_by_step
from binaryrelax.lab.theory.bregman import bregman
from binaryrelax.lab.theory.drawing.convergence import draw_alpha, draw_theorem
from binaryrelax.lab.theory.drawing.envelope import draw_envelope, draw_hamilton_jacobi
from binaryrelax.lab.theory.drawing.geometry import draw_figure_four, draw_figure_one
from binaryrelax.lab.theory.drawing.local_minima import draw_local_minima, draw_relaxed_minima
from binaryrelax.lab.theory.drawing.stagnation import draw_stagnation
from binaryrelax.lab.theory.envelope import envelope_along_a_run, fixed_strengths
from binaryrelax.lab.theory.evidence import statements, theorem
from binaryrelax.lab.theory.hamilton_jacobi import hamilton_jacobi
from binaryrelax.lab.theory.metric import other_metrics
from binaryrelax.lab.theory.stagnation import stagnation_on_quadratics
from binaryrelax.lab.theory.stagnation_network import stagnation_on_network
from binaryrelax.packed.writing import write_atomically

STRENGTHS = tuple(10 ** (k / 4) for k in range(-8, 17))


@dataclass(frozen=True)
class Part:
    """One file of numbers, and the figure that shows them.

    Args:
        name: of its files, without the ending.
        words: what it is, for the terminal.
    """

    name: str
    words: str
    compute: Callable[[], dict[str, Any]]
    draw: Callable[[dict[str, Any]], Figure] | None = None


def _alpha() -> dict[str, Any]:
    return {**alpha_ranges(), "along_runs": alpha_by_step()}


def _stagnation() -> dict[str, Any]:
    return {"quadratics": stagnation_on_quadratics(), "network": stagnation_on_network()}


def _envelope() -> dict[str, Any]:
    return {"run": envelope_along_a_run(), "fixed": fixed_strengths()}


def _remarks() -> dict[str, Any]:
    return {"metric": other_metrics(), "bregman": bregman()}


PARTS = (
    Part("figure1", "the paper's Figure 1", geometry.figure_one_data, draw_figure_one),
    Part("figure4", "the paper's Figure 4", geometry.figure_four_data, draw_figure_four),
    Part("statements", "every statement, case by case", statements),
    Part("alpha", "which α occur", _alpha, draw_alpha),
    Part("theorem", "both conclusions of the theorem", theorem, draw_theorem),
    Part("envelope", "the envelope along runs", _envelope, draw_envelope),
    Part("hamilton-jacobi", "Hopf and Lax", hamilton_jacobi, draw_hamilton_jacobi),
    Part("remarks", "other metrics, linearized Bregman", _remarks),
    Part(
        "relaxed-minima",
        "local minimizers of the relaxed objective",
        lambda: local_minima.relaxed_minima(STRENGTHS),
        draw_relaxed_minima,
    ),
    Part(
        "local-minima", "which minimizer is reached", local_minima.local_minima, draw_local_minima
    ),
    Part("stagnation", "small learning rates", _stagnation, draw_stagnation),
)


@dataclass(frozen=True)
class Written:
    """A part that is done: its files, and the seconds that it took."""

    part: Part
    files: tuple[Path, ...]
    seconds: float


def chosen_parts(names: Iterable[str]) -> list[Part]:
    """The parts of these names, all if there are none; a `ValueError` for a name that is not."""
    known = {part.name: part for part in PARTS}
    for name in names:
        if name not in known:
            raise ValueError(f"--only {name}: there is no such part; there are {', '.join(known)}")
    return [known[name] for name in names] or list(PARTS)


def write_part(part: Part, out: Path, results: Path) -> Written:
    """Computes one part and writes its numbers into `results` and its figure into `out`."""
    begun = time.monotonic()
    with one_thread():  # the same bits whatever the number of cores
        text = json.dumps(part.compute(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    numbers = results / f"{part.name}.json"
    write_atomically(numbers, text.encode())
    files = (numbers,)
    if part.draw is not None:
        picture = out / f"{part.name}.png"
        write_figure(picture, part.draw(json.loads(text)))
        files = (picture, numbers)
    return Written(part, files, time.monotonic() - begun)
