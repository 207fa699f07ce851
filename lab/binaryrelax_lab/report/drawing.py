"""How all pictures look, and how they become files."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from binaryrelax_lab.files import write_atomically

COLOURS = {
    "float": "#4b5563",
    "bwn": "#6aa9e9",
    "binary": "#1d4ed8",
    "twn": "#f0a35e",
    "ternary": "#c2410c",
    "ternary-exact": "#7c3aed",
}
INK, QUIET = "#1f2933", "#6b7280"
DOTS_PER_INCH, NUM_COLOURS = 90, 224
SHADE, FRAME, GRID = "#f1f0ea", "#c9ccd1", "#e5e7eb"


def panels(
    num_rows: int, num_columns: int, *, size: tuple[float, float], **options: Any
) -> tuple[Figure, list[Axes]]:
    """An empty figure and its panels, row by row."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, facecolor="white", layout=layout)
    axes = figure.subplots(num_rows, num_columns, squeeze=False, **options)
    for place in axes.flat:
        quieten(place)
    return figure, list(axes.flat)


def quieten(axes: Axes) -> None:
    """Takes away the frame and dims the ticks."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FRAME)
    axes.tick_params(colors=QUIET, labelsize=11, length=0, which="both")
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.set_axisbelow(True)


def title(axes: Axes, text: str) -> None:
    """A heading at the left."""
    axes.set_title(text, loc="left", fontsize=13, color=INK, pad=10)


def label(axes: Axes, *, x: str = "", y: str = "") -> None:
    """What the axes show."""
    axes.set_xlabel(x, color=QUIET, fontsize=11)
    axes.set_ylabel(y, color=QUIET, fontsize=11)


def legend(axes: Axes, **options: Any) -> None:
    """A legend without a frame."""
    axes.legend(frameon=False, fontsize=11, labelcolor=INK, **options)


def legend_below(figure: Figure, axes: Axes, order: Sequence[int]) -> None:
    """One legend of three columns under all panels, with the entries of one, column by column."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        [handles[i] for i in order], [names[i] for i in order], loc="outside lower center",
        ncols=3, frameon=False, fontsize=11.5, labelcolor=INK,
    )  # fmt: skip


def write_figure(path: Path, figure: Figure) -> None:
    """Writes a PNG file of few colours: the same numbers give the same bytes."""
    write_atomically(path, figure_bytes(figure))


def figure_bytes(figure: Figure) -> bytes:
    """The content of that file."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    content = io.BytesIO()
    image.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()
