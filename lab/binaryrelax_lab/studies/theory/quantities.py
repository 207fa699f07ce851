"""The quantities of section 4, each by its definition, on the steps of BinaryConnect (eq. 12).

What serves any training run (movement, α per layer, distance) is in ``binaryrelax.measure`` too;
what is here needs f, its constants, or the lines one by one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from binaryrelax_lab.studies.theory.iterations import Projection, Step, Trajectory
from binaryrelax_lab.studies.theory.lines_of_q import direction_of, onto_line
from binaryrelax_lab.studies.theory.problems import Problem

SAME_LINE = 1e-9  # how far |cos| of two directions may be from 1; other lines are much farther


def movements(run: Trajectory) -> Tensor:
    """||x^{k+1} - x^k|| of each step."""
    return (run.x[1:] - run.x[:-1]).norm(dim=-1)


def distances(run: Trajectory, q: Projection) -> Tensor:
    """dist(x^k, Q) of each iterate."""
    return torch.stack([(x - q.project(x)).norm() for x in run.x])


def alpha(step: Step) -> float:
    """α_k of lem:othor; NaN where x did not move and every α will do.

    α_k ||x^{k+1} - x^k||^2 + ||y^k - x^k||^2 = ||y^k - x^{k+1}||^2
    """
    return _alphas(step.x, step.y, step.next_x).item()


def alphas(run: Trajectory) -> Tensor:
    """α_k of each step; NaN where x did not move."""
    return _alphas(run.x[:-1], run.y[:-1], run.x[1:])


def layer_alphas(run: Trajectory, sizes: tuple[int, ...]) -> Tensor:
    """α_k of each step and layer, (K, layers), for a Q with one scale per layer.

    lem:othor holds layer by layer, and the α_k of the whole network is their mean, weighted with
    the squares of the layers' movements.
    """
    parts = zip(run.x.split_with_sizes(sizes, -1), run.y.split_with_sizes(sizes, -1), strict=True)
    return torch.stack([_alphas(x[:-1], y[:-1], x[1:]) for x, y in parts], -1)


def _alphas(x: Tensor, y: Tensor, next_x: Tensor) -> Tensor:
    """The difference of the two squares is taken as one inner product, which does not cancel."""
    change = next_x - x
    return (change * (change + 2 * (x - y))).sum(-1) / change.square().sum(-1)


def changes_line(run: Trajectory) -> Tensor:
    """Of each step, whether x^{k+1} lies on another line than x^k; 0 lies on all of them."""
    x, next_x = run.x[:-1], run.x[1:]
    product = (x * next_x).sum(-1).abs()
    return product < (1 - SAME_LINE) * x.norm(dim=-1) * next_x.norm(dim=-1)


def is_short(step: Step, angle: float) -> bool:
    """The condition of prop:alpha: ||x^{k+1} - x^k|| < ||x^k|| sin θ_min."""
    return bool((step.next_x - step.x).norm() < step.x.norm() * math.sin(angle))


def alpha_ceiling(step: Step, angle: float) -> float:
    """What α_k cannot exceed when x changes line; not in the paper.

    α_k <= 4 δ (||y^k - x^k|| + δ) / (||x^k|| sin θ_min)^2 with δ = γ_k ||∇f_k(x^k)||

    Moving y by δ moves its distance to Q by at most δ, so that ||y^k - x^{k+1}|| is at most
    ||y^k - x^k|| + 2δ; and x^{k+1} on another line is at least ||x^k|| sin θ_min away. So α_k goes
    to 0 with γ_k wherever lines keep changing.
    """
    moved = step.step_size * step.gradient.norm()
    gap = (step.y - step.x).norm()
    return float(4 * moved * (gap + moved) / (step.x.norm() * math.sin(angle)).square())


def projected_start(step: Step, direction: Tensor) -> Tensor:
    """x̃^k of lem:alt_update: y^k projected on the line of x^{k+1}."""
    return onto_line(step.y, direction)


def target(step: Step, direction: Tensor) -> Tensor:
    """x̃^k - γ_k ∇f_k(x^k), the point that lem:alt_update projects."""
    return projected_start(step, direction) - step.step_size * step.gradient


def alternative_update(step: Step, direction: Tensor) -> Tensor:
    """x^{k+1} by lem:alt_update: the point of the line nearest to x̃^k - γ_k ∇f_k(x^k)."""
    return onto_line(target(step, direction), direction)


def is_local_minimizer(point: Tensor, aim: Tensor, lines: Tensor) -> bool:
    """Whether a point of Q minimises ||x - aim||^2 over the points of Q near it.

    Near x != 0 these are the points of its line; near 0 they are those of every line.
    """
    own = lines if not point.any() else direction_of(point)[None]
    slope = (own @ (aim - point)).abs().max()
    return bool(slope <= 1e-9 * (1 + aim.norm()))


def upper_bound_slack(step: Step, direction: Tensor) -> Tensor:
    """α_k ||x^{k+1} - x^k||^2 - ||x^{k+1} - x̃^k||^2, not negative by lem:upper."""
    change = step.next_x - step.x
    right = (change * (change + 2 * (step.x - step.y))).sum()
    return right - (step.next_x - projected_start(step, direction)).square().sum()


def stationarity(problem: Problem, x: Tensor, lines: Tensor | None = None) -> Tensor:
    """dist(0, ∂h(x)) with h = f + χ_Q, for x in Q.

    On a line away from 0, ∂χ_Q(x) is all that is orthogonal to the line, which leaves |<∇f(x), u>|.
    At 0 it is the union of these over all lines, which leaves the smallest of them.
    """
    gradient = problem.gradient(x)
    if x.any():
        return (gradient @ direction_of(x)).abs()
    if lines is None:
        raise ValueError("stationarity at 0 needs the lines of Q: give directions(quantizer, n)")
    return (lines @ gradient).abs().min()


def layer_stationarity(problem: Problem, x: Tensor) -> Tensor:
    """dist(0, ∂h(x)) for a Q with one scale per layer, x with no layer at 0."""
    layers = (w.split_with_sizes(problem.layer_sizes) for w in (problem.gradient(x), x))
    slopes = [gradient @ direction_of(part) for gradient, part in zip(*layers, strict=True)]
    return torch.stack(slopes).norm()
