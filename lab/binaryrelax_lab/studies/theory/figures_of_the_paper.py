"""The two drawings of the paper that explain the geometry: its Figures 1 and 4."""

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryrelax import Ternary
from binaryrelax_lab.report.drawing import COLOURS, INK, QUIET, panels, title
from binaryrelax_lab.studies.theory.iterations import Step
from binaryrelax_lab.studies.theory.lines_of_q import code_vectors, direction_of
from binaryrelax_lab.studies.theory.method_colours import METHOD_COLOURS
from binaryrelax_lab.studies.theory.quantities import alternative_update, projected_start
from binaryrelax_lab.studies.theory.significant_digits import rounded_list

EXAMPLES = ((1.3, 0.42), (0.55, 1.35), (-0.3, 1.05), (-1.5, 1.05), (1.35, -0.95))
Y, SHIFT = (1.5, 0.6), (-0.12, 0.46)  # y^k and −γ_k ∇f_k(x^k) of Figure 4
LINE, CELLS = COLOURS["binary"], ("#f6f7f9", "#e9edf5")
FLOAT = COLOURS["ternary"]
REACH = 2.25

Point = tuple[float, float]


def figure_one_data() -> dict[str, Any]:
    """The lines of Q for two ternary weights, and points with their projections."""
    quantizer = Ternary()
    points = [torch.tensor(point, dtype=torch.float64) for point in EXAMPLES]
    return {
        "lines": rounded_list(code_vectors(quantizer, 2)),
        "projections": [
            {"point": rounded_list(y), "projection": rounded_list(quantizer.project(y))}
            for y in points
        ],
    }


def figure_four_data() -> dict[str, Any]:
    """One step of BinaryConnect that changes line, and the alternative update that explains it."""
    quantizer = Ternary()
    y, shift = (torch.tensor(v, dtype=torch.float64) for v in (Y, SHIFT))
    x, next_y = quantizer.project(y), y + shift
    next_x = quantizer.project(next_y)
    step = Step(x, y, 1.0, -shift, next_x, next_y)
    line = direction_of(next_x)
    start = projected_start(step, line)
    points = {
        "y": y,
        "x": x,
        "next_y": next_y,
        "next_x": next_x,
        "x_tilde": start,
        "target": start + shift,
        "alternative": alternative_update(step, line),
    }
    return {
        "lines": rounded_list(code_vectors(quantizer, 2)),
        **{name: rounded_list(point) for name, point in points.items()},
    }


def draw_figure_one(data: dict[str, Any]) -> Figure:
    """The four lines of Q for two ternary weights, the cells around them, some projections."""
    figure, [axes] = panels(1, 1, size=(6.6, 6.6))
    _draw_plane(axes, data["lines"])
    for pair in data["projections"]:
        _arrow(axes, pair["point"], pair["projection"], colour=QUIET, style="->")
        _dot(axes, pair["point"], FLOAT)
        _dot(axes, pair["projection"], LINE)
    first = data["projections"][0]
    _name(axes, first["point"], "y", (6, 4), FLOAT)
    _name(axes, first["projection"], "proj(y)", (4, -16), LINE)
    _name_lines(axes, data["lines"])
    title(axes, "Q = R₊ × {0, ±1}²: four lines, and the points nearest to each")
    return figure


def draw_figure_four(data: dict[str, Any]) -> Figure:
    """One step, once as it is taken and once from x̃: both end in the same x."""
    figure, [axes] = panels(1, 1, size=(8.6, 6.2))
    _draw_plane(axes, data["lines"])
    axes.set(xlim=(-0.12, 1.95), ylim=(-0.22, 1.66))
    for start, end in (("y", "x"), ("y", "x_tilde"), ("next_y", "next_x"), ("target", "next_x")):
        _arrow(axes, data[start], data[end], colour=QUIET, style="-", dashed=True)
    for start, end in (("y", "next_y"), ("x_tilde", "target")):
        _arrow(axes, data[start], data[end], colour=FLOAT, style="-|>")
        x, y = (np.array(data[start]) + np.array(data[end])) / 2
        _name(axes, (x, y), "−γ∇f(xᵏ)", (8, -2) if start == "y" else (-72, 0), FLOAT)
    names = {
        "y": ("yᵏ", (8, -6), FLOAT),
        "x": ("xᵏ", (2, -20), LINE),
        "next_y": ("yᵏ⁺¹", (8, 2), FLOAT),
        "next_x": ("xᵏ⁺¹", (-12, 14), LINE),
        "x_tilde": ("x̃ᵏ", (-22, 6), METHOD_COLOURS["projected gradient"]),
        "target": ("x̃ᵏ − γ∇f(xᵏ)", (-40, 12), METHOD_COLOURS["projected gradient"]),
    }
    for name, (text, offset, colour) in names.items():
        _dot(axes, data[name], colour)
        _name(axes, data[name], text, offset, colour)
    _name(axes, (1.62, 0), "the line of xᵏ", (-10, 7), LINE)
    _name(axes, (0.3, 0.3), "Lᵢ, the line of xᵏ⁺¹", (14, -14), LINE)
    title(axes, "The alternative update: both dashed roads lead to xᵏ⁺¹")
    return figure


def _draw_plane(axes: Axes, lines: list[list[float]]) -> None:
    """Cells of nearest line as shades, and the lines."""
    units = np.array(lines) / np.linalg.norm(lines, axis=1, keepdims=True)
    angles = np.sort(np.arctan2(units[:, 1], units[:, 0]) % np.pi)
    angles = np.concatenate([angles, angles + np.pi, angles[:1] + 2 * np.pi])
    borders = (angles[1:] + angles[:-1]) / 2
    for number, (low, high) in enumerate(zip(borders, np.roll(borders, -1), strict=True)):
        high = high if high > low else high + 2 * np.pi
        around = np.linspace(low, high, 20)
        x, y = 2 * REACH * np.cos(around), 2 * REACH * np.sin(around)
        axes.fill(np.append(x, 0), np.append(y, 0), color=CELLS[number % 2], lw=0, zorder=0)
    for unit in units:
        axes.plot(*(2 * REACH * np.outer(unit, (-1, 1))), color=LINE, lw=2, zorder=1)
    axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)


def _name_lines(axes: Axes, lines: list[list[float]]) -> None:
    for codes in lines:
        far = np.array(codes) / max(abs(np.array(codes))) * REACH * 0.74
        text = "s·(" + ", ".join(f"{code:g}".replace("-", "−") for code in codes) + ")"
        axes.annotate(
            text, far, xytext=(0, 7) if codes[0] and not codes[1] else (9, -4),
            textcoords="offset points", color=LINE, size=11.5,
        )  # fmt: skip


def _dot(axes: Axes, point: Point, colour: str) -> None:
    axes.plot(*point, "o", color=colour, ms=8, mec="white", mew=1.2, zorder=4)


def _arrow(
    axes: Axes, start: Point, end: Point, *, colour: str, style: str, dashed: bool = False
) -> None:
    shape = {"arrowstyle": style, "color": colour, "lw": 1.6, "shrinkA": 4, "shrinkB": 5}
    line = {**shape, "linestyle": (0, (4, 3))} if dashed else shape
    axes.annotate("", xy=end, xytext=start, arrowprops=line, zorder=3)


def _name(axes: Axes, point: Point, text: str, offset: Point, colour: str = INK) -> None:
    axes.annotate(
        text, point, xytext=offset, textcoords="offset points", color=colour, size=13, zorder=5
    )
