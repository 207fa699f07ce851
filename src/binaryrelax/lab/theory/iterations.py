"""The paper's three iterations on a test problem, written plainly, with all they pass through.

The library's optimizers take the same steps to the bit; a test holds them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from binaryrelax import Hard, Quantizer, Schedule
from binaryrelax.lab.theory.problems import Problem
from binaryrelax.optim.relaxation import mixing_weight


class Projection(Protocol):
    """What the iterations ask of Q: a nearest point."""

    def project(self, w: Tensor) -> Tensor:
        """The point of Q nearest to ``w``."""


@dataclass(frozen=True)
class LayerWise:
    """Q = Q_1 × ... × Q_l: one scale per layer, a product of unions of lines."""

    quantizer: Quantizer
    sizes: tuple[int, ...]

    def project(self, w: Tensor) -> Tensor:
        return torch.cat([self.quantizer.project(part) for part in w.split(self.sizes)])


@dataclass(frozen=True, eq=False)
class Step:
    """From (x^k, y^k) to (x^{k+1}, y^{k+1}) with γ_k and ∇f_k(x^k)."""

    x: Tensor
    y: Tensor
    step_size: float
    gradient: Tensor
    next_x: Tensor
    next_y: Tensor


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run of K steps: row k of ``x`` and ``y`` is x^k and y^k, K + 1 rows.

    ``gradients`` holds ∇f_k(x^k) as it was taken, noise and all, K rows. Where the start had one
    row per run, each of these is a matrix of such rows.
    """

    x: Tensor
    y: Tensor
    step_sizes: tuple[float, ...]
    gradients: Tensor

    def __len__(self) -> int:
        return len(self.step_sizes)

    def steps(self) -> Iterator[Step]:
        """The steps one by one."""
        for k, step_size in enumerate(self.step_sizes):
            yield Step(
                self.x[k], self.y[k], step_size, self.gradients[k], self.x[k + 1], self.y[k + 1]
            )


def constant(step_size: float, num_steps: int) -> tuple[float, ...]:
    """γ_k = γ."""
    return (step_size,) * num_steps


def harmonic(first: float, num_steps: int, *, half_after: int = 100) -> tuple[float, ...]:
    """γ_k = γ / (1 + k / half_after): Σγ_k = inf and Σγ_k² < inf, as the theorem asks."""
    return tuple(first / (1 + k / half_after) for k in range(num_steps))


def binary_connect(
    problem: Problem, q: Projection, start: Tensor, step_sizes: Sequence[float], *, seed: int = 0
) -> Trajectory:
    """y^{k+1} = y^k - γ_k ∇f_k(x^k),  x^{k+1} = proj_Q(y^{k+1})      (eq. 12)"""
    return binary_relax(problem, q, start, step_sizes, schedule=Hard(), seed=seed)


def binary_relax(
    problem: Problem,
    q: Projection,
    start: Tensor,
    step_sizes: Sequence[float],
    *,
    schedule: Schedule,
    seed: int = 0,
) -> Trajectory:
    """y^{k+1} = y^k - γ_k ∇f_k(x^k),  x^{k+1} = (λ_k proj_Q(y^{k+1}) + y^{k+1}) / (λ_k + 1).

    Algorithm 1 (eqs. 10 and 11), and eq. 12 where λ_k is inf. The first x is that of λ_0.
    """

    def relaxed(y: Tensor, step: int) -> Tensor:
        mix = torch.tensor(mixing_weight(schedule(max(step, 0))), dtype=y.dtype)
        return torch.lerp(y, q.project(y), mix)

    return _iterate(problem, relaxed, start, step_sizes, seed=seed)


def projected_gradient(
    problem: Problem, q: Projection, start: Tensor, step_sizes: Sequence[float], *, seed: int = 0
) -> Trajectory:
    """y^{k+1} = x^k - γ_k ∇f_k(x^k),  x^{k+1} = proj_Q(y^{k+1})      (eq. 2)"""

    def projected(y: Tensor, step: int) -> Tensor:
        return q.project(y)

    return _iterate(problem, projected, start, step_sizes, seed=seed, from_x=True)


def _iterate(
    problem: Problem,
    next_x: Callable[[Tensor, int], Tensor],
    start: Tensor,
    step_sizes: Sequence[float],
    *,
    seed: int,
    from_x: bool = False,
) -> Trajectory:
    generator = Generator().manual_seed(seed)
    x, y = next_x(start, -1), start.clone()
    xs, ys, gradients = [x], [y], []
    for k, step_size in enumerate(step_sizes):
        gradient = problem.noisy_gradient(x, generator)
        # Not y - step_size * gradient: torch's SGD rounds once, and so shall this.
        y = torch.add(x if from_x else y, gradient, alpha=-step_size)
        x = next_x(y, k)
        xs.append(x), ys.append(y), gradients.append(gradient)
    return Trajectory(torch.stack(xs), torch.stack(ys), tuple(step_sizes), torch.stack(gradients))
