"""The paper's iterations on test problems, written plainly.

One run at a time with all it passes through (`Trajectory`), or many methods and starts at once,
where a step of all of them is a few tensor calls (`Descent`). The library's optimizers take the
same steps to the bit; a test holds them together.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from binaryrelax import Hard, Quantizer, Schedule
from binaryrelax.optim.relaxation import mixing_weight
from binaryrelax_lab.studies.theory.problems import Problem


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
        return torch.cat([self.quantizer.project(part) for part in w.split_with_sizes(self.sizes)])


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
        xs.append(x)
        ys.append(y)
        gradients.append(gradient)
    return Trajectory(torch.stack(xs), torch.stack(ys), tuple(step_sizes), torch.stack(gradients))


@dataclass(frozen=True)
class Method:
    """One way to descend.

    Args:
        schedule: λ by step; `Hard()` for BinaryConnect and the projected gradient.
        from_projection: the step starts at x (eq. 2), not at the float weights y (eq. 10).
    """

    name: str
    schedule: Schedule
    from_projection: bool = False


PROJECTED_GRADIENT = Method("projected gradient", Hard(), from_projection=True)
BINARY_CONNECT = Method("BinaryConnect", Hard())


@dataclass(frozen=True)
class Descent:
    """What all runs of an experiment share.

    Args:
        gradient: of points (methods, members, starts, weights).
        quantizer: with one scale per row (`PerChannel`), since every start is a row.
        rates: the learning rate of each step.
        noise: the root of the mean square of the noise in the gradient, σ of the paper.
        seed: of the noise, which is the same for all methods.
    """

    gradient: Callable[[Tensor], Tensor]
    quantizer: Quantizer
    rates: list[float]
    noise: float = 0.0
    seed: int = 0

    def project(self, y: Tensor) -> Tensor:
        """The nearest point of Q to each row."""
        return self.quantizer.project_finite(y.reshape(-1, y.shape[-1])).reshape(y.shape)

    def run(self, methods: list[Method], starts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """x and proj(y) after each step, (methods, members, starts, weights); first those at 0."""
        shown = (len(methods), 1, 1, 1)
        at_x = torch.tensor([method.from_projection for method in methods]).reshape(shown)
        source = torch.Generator().manual_seed(self.seed)
        y = starts.expand(len(methods), *starts.shape)
        projected = self.project(y)
        x = _relax(y, projected, methods, 0)
        yield x, projected
        for step, rate in enumerate(self.rates):
            slope = self.gradient(x) + self._noise(starts, source)
            y = torch.where(at_x, x, y) - rate * slope
            projected = self.project(y)
            x = _relax(y, projected, methods, step)
            yield x, projected

    def last(self, methods: list[Method], starts: Tensor) -> Tensor:
        """proj(y) after the last step."""
        [(_, projected)] = deque(self.run(methods, starts), maxlen=1)
        return projected

    def _noise(self, starts: Tensor, source: torch.Generator) -> Tensor | float:
        if not self.noise:
            return 0.0
        normal = torch.randn(starts.shape, generator=source, dtype=starts.dtype)
        return self.noise / math.sqrt(starts.shape[-1]) * normal


def _relax(y: Tensor, projected: Tensor, methods: list[Method], step: int) -> Tensor:
    """eq. 11, with a λ for each method."""
    mix = torch.tensor([mixing_weight(m.schedule(step)) for m in methods], dtype=y.dtype)
    return torch.lerp(y, projected, mix.reshape(-1, 1, 1, 1).expand_as(y))


def cosine_rates(first: float, num_steps: int) -> list[float]:
    """From `first` to almost 0 along half a cosine."""
    return [first / 2 * (1 + math.cos(math.pi * k / num_steps)) for k in range(num_steps)]


def stepped_rates(first: float, num_steps: int) -> list[float]:
    """Divided by 10 after 2/5 and after 11/15 of the steps, as in the paper (120, 220 of 300)."""
    falls = (num_steps * 2 // 5, num_steps * 11 // 15)
    return [first * 0.1 ** sum(k >= fall for fall in falls) for k in range(num_steps)]
