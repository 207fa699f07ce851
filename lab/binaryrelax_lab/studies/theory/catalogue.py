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

from binaryrelax_lab.engine import one_thread
from binaryrelax_lab.files import write_atomically
from binaryrelax_lab.report.drawing import write_figure
from binaryrelax_lab.studies.theory.alpha import alpha_statistics, draw_alpha
from binaryrelax_lab.studies.theory.envelope import draw_envelope, envelope
from binaryrelax_lab.studies.theory.figures_of_the_paper import (
    draw_figure_four,
    draw_figure_one,
    figure_four_data,
    figure_one_data,
)
from binaryrelax_lab.studies.theory.hamilton_jacobi import draw_hamilton_jacobi, hamilton_jacobi
from binaryrelax_lab.studies.theory.local_minima import draw_local_minima, local_minima
from binaryrelax_lab.studies.theory.relaxed_objective import draw_relaxed_minima, relaxed_minima
from binaryrelax_lab.studies.theory.remarks import remarks
from binaryrelax_lab.studies.theory.stagnation import draw_stagnation, stagnation
from binaryrelax_lab.studies.theory.statement_table import statements
from binaryrelax_lab.studies.theory.theorem import draw_theorem, theorem


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


PARTS = (
    Part("figure1", "the paper's Figure 1", figure_one_data, draw_figure_one),
    Part("figure4", "the paper's Figure 4", figure_four_data, draw_figure_four),
    Part("statements", "every statement, case by case", statements),
    Part("alpha", "which α occur", alpha_statistics, draw_alpha),
    Part("theorem", "both conclusions of the theorem", theorem, draw_theorem),
    Part("envelope", "the envelope along runs", envelope, draw_envelope),
    Part("hamilton-jacobi", "Hopf and Lax", hamilton_jacobi, draw_hamilton_jacobi),
    Part("remarks", "other metrics, linearized Bregman", remarks),
    Part(
        "relaxed-minima",
        "local minimizers of the relaxed objective",
        relaxed_minima,
        draw_relaxed_minima,
    ),
    Part("local-minima", "which minimizer is reached", local_minima, draw_local_minima),
    Part("stagnation", "small learning rates", stagnation, draw_stagnation),
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
            raise ValueError(f"{name}: there is no such part; there are {', '.join(known)}")
    return [known[name] for name in names] or list(PARTS)


def write_part(part: Part, out: Path, results: Path) -> Written:
    """Computes one part and writes its numbers into `results` and its figure into `out`."""
    begun = time.monotonic()
    with one_thread():  # the same bits whatever the number of cores
        text = json.dumps(part.compute(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    numbers = results / f"{part.name}.json"
    write_atomically(numbers, text.encode())
    files = [numbers]
    if part.draw is not None:
        files.insert(0, out / f"{part.name}.png")
        write_figure(files[0], part.draw(json.loads(text)))
    return Written(part, tuple(files), time.monotonic() - begun)
