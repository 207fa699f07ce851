"""The envelope as a solution of the Hamilton-Jacobi equation, in one dimension.

    u_t + u_x² / 2 = 0,  u(x, 0) = g(x)

Its viscosity solution is the Moreau envelope u(x, t) = min over z of g(z) + (z − x)² / (2t), by the
formula of Hopf and Lax with H* = H. Checked against a monotone finite-difference scheme, which
knows nothing of that formula.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from binaryrelax_lab.report.drawing import COLOURS, label, legend, panels, title
from binaryrelax_lab.studies.theory.significant_digits import rounded, rounded_list

LEVELS = (-1.0, 0.0, 1.0)  # of one ternary weight whose scale is held at 1
FIRST_TIME, LAST_TIME = 0.1, 0.5
EDGE = 2.0
TIME_COLOURS = ("#1d4ed8", "#6aa9e9", "#7c3aed")


def to_levels(x: Tensor, time: float) -> Tensor:
    """dist(x, {−1, 0, 1})² / (2t): the envelope of the levels' indicator, λ = 1/t."""
    gaps = x[:, None] - torch.tensor(LEVELS, dtype=x.dtype)
    return gaps.square().amin(1) / (2 * time)


def hopf_lax(g: Callable[[Tensor], Tensor], x: Tensor, time: float, z: Tensor) -> Tensor:
    """min over the given z of g(z) + (z − x)² / (2t), for each x."""
    return (g(z) + (z - x[:, None]).square() / (2 * time)).amin(1)


def godunov(u: Tensor, spacing: float, duration: float) -> Tensor:
    """u_t + u_x²/2 = 0 marched on by a monotone upwind scheme; the edges are extrapolated.

    H(p⁻, p⁺) = max(max(p⁻, 0)², min(p⁺, 0)²) / 2 with p⁻ and p⁺ the slopes to the left and right.
    """
    elapsed = 0.0
    while elapsed < duration:
        slopes = (u[1:] - u[:-1]) / spacing
        step = min(0.5 * spacing / float(slopes.abs().max().clamp_min(1e-12)), duration - elapsed)
        left = torch.cat([slopes[:1], slopes]).clamp_min(0)
        right = torch.cat([slopes, slopes[-1:]]).clamp_max(0)
        u = u - step * torch.maximum(left.square(), right.square()) / 2
        elapsed += step
    return u


def bumpy(x: Tensor) -> Tensor:
    """A smooth function that is not convex, to begin with at t = 0."""
    return torch.cos(3 * x) + x.square() / 4


def hamilton_jacobi(num_points: tuple[int, ...] = (101, 201, 401, 801)) -> dict[str, Any]:
    """The largest difference of both solutions on finer and finer grids, and the curves to draw."""
    return {
        "levels": LEVELS,
        "first_time": FIRST_TIME,
        "last_time": LAST_TIME,
        "refinement": [_differences(n) for n in num_points],
        "curves": _curves(),
    }


def _grid(num_points: int) -> tuple[Tensor, float]:
    x = torch.linspace(-EDGE, EDGE, num_points, dtype=torch.float64)
    return x, float(x[1] - x[0])


def _differences(num_points: int) -> dict[str, Any]:
    """On the inner half, which the edges do not reach."""
    x, spacing = _grid(num_points)
    inner = x.abs() <= EDGE / 2
    marched = godunov(to_levels(x, FIRST_TIME), spacing, LAST_TIME - FIRST_TIME)
    smooth = godunov(bumpy(x), spacing, LAST_TIME)
    exact = hopf_lax(bumpy, x, LAST_TIME, torch.linspace(-4, 4, 8001, dtype=torch.float64))
    return {
        "points": num_points,
        "levels": rounded((marched - to_levels(x, LAST_TIME))[inner].abs().max(), 4),
        "smooth": rounded((smooth - exact)[inner].abs().max(), 4),
    }


def _curves() -> dict[str, Any]:
    x, spacing = _grid(161)
    times = [FIRST_TIME, 0.2, LAST_TIME]
    marched = [godunov(to_levels(x, FIRST_TIME), spacing, t - FIRST_TIME) for t in times]
    return {
        "x": rounded_list(x),
        "times": times,
        "hopf_lax": [rounded_list(to_levels(x, time)) for time in times],
        "godunov": [rounded_list(u) for u in marched],
    }


def draw_hamilton_jacobi(data: dict[str, Any]) -> Figure:
    """Both solutions at three times, and how their difference falls with the grid."""
    figure, (left, right) = panels(1, 2, size=(13, 4.8), width_ratios=(1.5, 1))
    curves = data["curves"]
    for number, time in enumerate(curves["times"]):
        colour = TIME_COLOURS[number]
        name = f"t = {time:g}, λ = 1/t = {1 / time:g}"
        left.plot(curves["x"], curves["hopf_lax"][number], lw=2.2, label=name, color=colour)
        if number:
            every = slice(None, None, 4)
            left.plot(curves["x"][every], curves["godunov"][number][every], "o", ms=4, color=colour)
    left.set(xlim=(-1.6, 1.6), ylim=(0, 1.5))
    title(left, "dist(x, {−1, 0, 1})²/2t (lines) and finite differences (dots)")
    label(left, x="x")
    legend(left, loc="upper center", ncols=3)
    refined = data["refinement"]
    points = np.array([r["points"] for r in refined])
    for key, name, colour in (
        ("levels", "from the levels", COLOURS["binary"]),
        ("smooth", "from cos 3x + x²/4", COLOURS["ternary"]),
    ):
        right.loglog(points, [r[key] for r in refined], "-o", lw=2.2, color=colour, label=name)
    right.set_xticks(points, [str(n) for n in points])
    right.set_yticks([0.003, 0.01, 0.03], ["0.003", "0.01", "0.03"])
    right.minorticks_off()
    title(right, f"Largest difference at t = {data['last_time']:g}")
    label(right, x="grid points")
    legend(right, loc="upper right")
    return figure
