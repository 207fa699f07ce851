"""Global minimizers over Q (eq. 8) and of the relaxed problem (eq. 9), exact for quadratics.

dist(x, Q)^2 is the smallest of the squared distances to the lines, so the minimum of (9) over x is
the smallest of one linear least-squares problem per line.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.lab.theory.iterations import Projection
from binaryrelax.lab.theory.problems import Problem, Quadratic


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
    """x*_λ, the global minimizer of (9): the best of (A + λ(I - u u'))x = A c over the lines."""
    identity = torch.eye(problem.num_weights, dtype=torch.float64)
    away = identity - lines[:, :, None] * lines[:, None, :]
    pull = (problem.matrix @ problem.center).expand(len(lines), -1)
    candidates = torch.linalg.solve(problem.matrix + strength * away, pull)
    distances = (away @ candidates[:, :, None]).square().sum((1, 2))
    values = problem.value(candidates) + strength / 2 * distances
    return candidates[values.argmin()]


def best_proximal(y: Tensor, lines: Tensor, strength: float) -> float:
    """min over x of ||x - y||^2/2 + λ/2 dist(x, Q)^2, line by line (eq. 10, second line).

    Along a line only the part of y beside it costs: λ/(λ+1) times half its square.
    """
    beside = y.square().sum() - (lines @ y).square().max()
    return (strength / (strength + 1) * beside.clamp(min=0) / 2).item()


@dataclass(frozen=True)
class EscapingValley:
    """A continuous f: R^2 -> [0, 1] for which prop:global fails, with Q = R_+ × {0, ±1}^2.

    f(u, v) = 1 - ρ(u) (1/2 + 1/u) φ(v u^2),  φ(t) = max(0, 1 - |t - 1|),  ρ(u) = u - 2 in [0, 1]

    A valley runs beside the line v = 0 and comes ever closer to it, at v = 1/u^2. On Q itself f is
    1. For λ >= 27/2 the minimizer of (9) is in the valley at u = (2λ)^(1/3): it runs to infinity,
    where dist(x*_λ, Q) -> 0 but f(x*_λ) -> 1/2. The proof takes f(proj(x)) - f(x) to 0 with
    ||proj(x) - x||, which needs minimizers that stay bounded, or an f that is uniformly continuous.
    """

    num_weights: int = 2

    def value(self, x: Tensor) -> Tensor:
        """f at (u, v), or at each row."""
        u, v = x[..., 0], x[..., 1]
        depth = (u - 2).clamp(0, 1) * (0.5 + 1 / u.clamp(min=2))
        return 1 - depth * (1 - (v * u.square() - 1).abs()).clamp(min=0)

    def relaxed_minimizer(self, strength: float) -> Tensor:
        """x*_λ for λ >= 27/2."""
        u = (2 * strength) ** (1 / 3)
        return torch.tensor([u, u**-2], dtype=torch.float64)
