"""Minimizers over Q (eq. 8) and of the relaxed problem (eq. 9), exact for quadratics.

dist(x, Q)^2 is the smallest of the squared distances to the lines. So the minimum of (9) over x is
the smallest of one linear least-squares problem per line, and a local minimizer is the minimizer
of one of them, at a point whose nearest line is that one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from binaryrelax import Binary, PerChannel, Quantizer, distance
from binaryrelax_lab.report.drawing import COLOURS, QUIET, label, panels, title
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.iterations import Projection
from binaryrelax_lab.studies.theory.lines_of_q import code_vectors, unit_vectors
from binaryrelax_lab.studies.theory.problems import Problem, Quadratic
from binaryrelax_lab.studies.theory.significant_digits import rounded

STRENGTHS = tuple(10 ** (k / 4) for k in range(-8, 17))
ENOUGH_DIGITS = 1e-9  # relative; two lines with values closer than this count as one minimum


def moreau_envelope(x: Tensor, quantizer: Quantizer, strength: float) -> Tensor:
    """min over z in Q of λ/2 ||z − x||², the envelope of Q's indicator: λ/2 dist(x, Q)²."""
    return strength / 2 * distance(x, quantizer).square()


def relaxed_value(problem: Problem, q: Projection, x: Tensor, strength: float) -> Tensor:
    """f(x) + λ/2 dist(x, Q)^2      (eq. 9)"""
    return problem.value(x) + strength / 2 * (x - q.project(x)).square().sum()


def best_in_q(problem: Quadratic, lines: Tensor) -> tuple[float, Tensor]:
    """f*_Q = min of f over Q, and where it is attained (eq. 8); one candidate per line."""
    pull = problem.matrix @ problem.center
    scales = (lines @ pull) / ((lines @ problem.matrix) * lines).sum(1)
    candidates = scales[:, None] * lines
    values = problem.value(candidates)
    best = values.argmin()
    return values[best].item(), candidates[best]


def best_relaxed(problem: Quadratic, lines: Tensor, strength: float) -> Tensor:
    """x*_λ, the global minimizer of (9): the best over the lines."""
    candidates = _on_each_line(problem.matrix, problem.center, lines, strength)
    beside = candidates - (candidates * lines).sum(1, keepdim=True) * lines
    values = problem.value(candidates) + strength / 2 * beside.square().sum(1)
    return candidates[values.argmin()]


def best_proximal(y: Tensor, lines: Tensor, strength: float) -> float:
    """min over x of ||x - y||^2/2 + λ/2 dist(x, Q)^2, line by line (eq. 10, second line).

    Along a line only the part of y beside it costs: λ/(λ+1) times half its square.
    """
    beside = y.square().sum() - (lines @ y).square().max()
    return (strength / (strength + 1) * beside.clamp(min=0) / 2).item()


def least_relaxed(family: QuadraticFamily, quantizer: Quantizer, strength: float) -> Tensor:
    """min over x of f(x) + λ/2 dist(x, Q)² for each member of the family, by listing the lines."""
    codes = code_vectors(quantizer, family.minimisers.shape[1])
    points = relaxed_minimisers(family, codes, strength)
    units = unit_vectors(codes)
    square = points.square().sum(-1) - (points * units).sum(-1).square()
    return (family.value(points) + strength / 2 * square).amin(1)


def relaxed_minimisers(family: QuadraticFamily, codes: Tensor, strength: float) -> Tensor:
    """argmin of f + λ/2 dist(·, line)² for each line, (members, lines, weights)."""
    units = unit_vectors(codes)
    members = zip(family.matrices, family.minimisers, strict=True)
    return torch.stack([_on_each_line(*member, units, strength) for member in members])


def _on_each_line(matrix: Tensor, center: Tensor, lines: Tensor, strength: float) -> Tensor:
    """Where (A + λ(I - u u'))x = A c, for each line u."""
    away = torch.eye(len(center), dtype=center.dtype) - lines[:, :, None] * lines[:, None, :]
    return torch.linalg.solve(matrix + strength * away, (matrix @ center).expand(len(lines), -1))


def minima_of_relaxation(family: QuadraticFamily, codes: Tensor, strength: float) -> Tensor:
    """Which lines have a local minimizer of f + λ/2 dist(·, Q)² (eq. 9) in their cell.

    The relaxed objective is the smallest of the convex functions f + λ/2 dist(·, line)². A local
    minimizer is therefore the minimiser of one of them, at a point whose nearest line is that one.

    Returns:
        (members, lines), True where there is one.
    """
    points = relaxed_minimisers(family, codes, strength)
    units = unit_vectors(codes)
    along = (points @ units.mT).square()
    own = along.diagonal(dim1=1, dim2=2)
    return own >= along.amax(2) * (1 - ENOUGH_DIGITS)


def relaxed_minima(
    strengths: Iterable[float] = STRENGTHS, *, num_members: int = 10
) -> dict[str, Any]:
    """How many local minimizers the relaxed objective (eq. 9) has, by λ."""
    quantizer = Binary(granularity=PerChannel())
    family = QuadraticFamily.random(num_members, 10, condition=10.0, seed=0)
    codes = code_vectors(quantizer, 10)
    counts = [(s, minima_of_relaxation(family, codes, s).double().sum(1)) for s in strengths]
    return {
        "weights": 10,
        "lines": len(codes),
        "members": num_members,
        "by_strength": [
            {
                "strength": rounded(strength),
                "mean": rounded(count.mean()),
                "least": int(count.min()),
                "most": int(count.max()),
            }
            for strength, count in counts
        ],
    }


def draw_relaxed_minima(data: dict[str, Any]) -> Figure:
    """The number of local minimizers of eq. 9 by λ, between those of f and those on Q."""
    figure, [axes] = panels(1, 1, size=(8.6, 4.8))
    records = data["by_strength"]
    strengths = [r["strength"] for r in records]
    axes.fill_between(
        strengths, [r["least"] for r in records], [r["most"] for r in records],
        color=COLOURS["binary"], alpha=0.15, lw=0,
    )  # fmt: skip
    axes.plot(strengths, [r["mean"] for r in records], color=COLOURS["binary"], lw=2.4)
    axes.axhline(data["lines"], color=QUIET, lw=1.2, ls="--")
    axes.annotate(
        f"on Q: {data['lines']}, one a line", (strengths[0], data["lines"]), xytext=(2, -16),
        textcoords="offset points", color=QUIET, size=11,
    )  # fmt: skip
    axes.set(xscale="log", ylim=(0, 1.06 * data["lines"]))
    title(axes, "Local minimizers of the relaxed objective f + λ/2 dist(x, Q)²")
    label(axes, x=f"λ  (binary weights, n = {data['weights']}, f convex; L = 1)")
    return figure
