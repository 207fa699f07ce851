"""Test problems whose constants are known: L of the gradient, σ of its noise.

They meet the paper's assumptions: f >= 0, the gradient is L-Lipschitz (the network's on a ball that
it names), and E||∇f_k(x) - ∇f(x)||^2 <= σ^2 with ∇f_k unbiased and independent of the past. All
tensors are flat and float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Generator, Tensor

from binaryrelax import Quantizer, Ternary

NUM_POINTS = 100  # of the ball, at which the network's constants are measured first
NUM_CLIMBERS = 4  # the worst of them, from where to go uphill
NUM_CLIMBS = 25  # steps uphill
MARGIN = 1.05  # the worst point of all is never found: what was measured is raised by this
CURVATURE_OF_TANH = 0.77  # at least max |tanh''| = 4 / (3 sqrt 3)


class Problem(Protocol):
    """A function to minimise over Q, with what the theory asks of it."""

    @property
    def num_weights(self) -> int:
        """n."""

    @property
    def L(self) -> float:
        """Lipschitz constant of the gradient."""

    @property
    def sigma(self) -> float:
        """Root of the largest mean squared error of ``noisy_gradient``."""

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """How many weights each layer has; they add up to n."""

    def value(self, x: Tensor) -> Tensor:
        """f(x), a scalar."""

    def gradient(self, x: Tensor) -> Tensor:
        """∇f(x)."""

    def noisy_gradient(self, x: Tensor, generator: Generator) -> Tensor:
        """∇f_k(x) with fresh randomness from ``generator``; ∇f(x) itself where σ = 0."""


def random_numbers(*shape: int, seed: int) -> Tensor:
    """Normal numbers, float64, the same for the same seed."""
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f(x) = (x - c)' A (x - c) / 2, strongly convex; normal noise on the gradient.

    It takes many points at once, one per row.

    Args:
        matrix: A, symmetric and positive definite.
        center: c, where f is 0.
        sigma: the noise ξ has independent normal entries and E||ξ||^2 = σ^2.
    """

    matrix: Tensor
    center: Tensor
    sigma: float = 0.0

    @classmethod
    def random(
        cls, num_weights: int, *, L: float = 1.0, mu: float = 0.1, sigma: float = 0.0, seed: int = 0
    ) -> Quadratic:
        """Random axes, eigenvalues spread geometrically from ``mu`` to ``L``, a normal center."""
        basis = torch.linalg.qr(random_numbers(num_weights, num_weights, seed=seed)).Q
        exponents = torch.linspace(1, 0, num_weights, dtype=torch.float64)
        eigenvalues = L * (mu / L) ** exponents if num_weights > 1 else torch.tensor([L]).double()
        matrix = basis * eigenvalues @ basis.T
        center = random_numbers(num_weights, seed=seed + 1_000_000)
        return cls((matrix + matrix.T) / 2, center, sigma)

    @classmethod
    def planted(
        cls, num_weights: int, *, L: float = 1.0, sigma: float = 0.0, seed: int = 0
    ) -> Quadratic:
        """One whose center is a point of Q, ±1 everywhere: f has its minimum on a line."""
        matrix = cls.random(num_weights, L=L, mu=L / 2, seed=seed).matrix
        signs = random_numbers(num_weights, seed=seed + 2_000_000).sign()
        return cls(matrix, signs, sigma)

    @property
    def num_weights(self) -> int:
        return len(self.center)

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        return (self.num_weights,)

    @cached_property
    def L(self) -> float:
        """The largest eigenvalue of A."""
        return float(torch.linalg.eigvalsh(self.matrix)[-1])

    def value(self, x: Tensor) -> Tensor:
        return (self.gradient(x) * (x - self.center)).sum(-1) / 2

    def gradient(self, x: Tensor) -> Tensor:
        return (x - self.center) @ self.matrix

    def noisy_gradient(self, x: Tensor, generator: Generator) -> Tensor:
        if self.sigma == 0:
            return self.gradient(x)
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        return self.gradient(x) + self.sigma / self.num_weights**0.5 * noise


def figure_one(sigma: float = 0.0) -> tuple[Quadratic, Quantizer]:
    """The set of Figure 1, two ternary weights (n = 2, p = 4 lines), and a quadratic over it.

    Its center lies between the lines through (1, 0) and (1, 1), in neither.
    """
    matrix = torch.tensor([[1.0, 0.3], [0.3, 0.5]], dtype=torch.float64)
    return Quadratic(matrix, torch.tensor([1.2, 0.5], dtype=torch.float64), sigma), Ternary()


@dataclass(frozen=True, eq=False)
class TwoLayerNetwork:
    """f(W, v) = mean_j (v' tanh(W z_j) - u_j)^2 / 2: not convex.

    The weights are one flat vector: W row by row, then v. ∇f_k is the mean over ``batch_size``
    samples drawn with replacement, so that its error has the variance of one sample divided by
    ``batch_size``. No constant L holds on all of R^n, because f grows with the fourth power: L and
    σ hold on the ball ||x|| <= ``radius``, where they are the largest found (of the
    Hessian's spectral norm, of the error) going uphill from the worst of many random points,
    raised by ``MARGIN``.

    Args:
        inputs: z_j, one row per sample.
        targets: u_j.
        num_hidden: rows of W.
        batch_size: samples in ∇f_k; None takes all of them, and σ = 0.
        radius: of the ball on which L and σ are measured.
    """

    inputs: Tensor
    targets: Tensor
    num_hidden: int
    batch_size: int | None = None
    radius: float = 6.0

    @classmethod
    def random(
        cls,
        *,
        num_inputs: int = 4,
        num_hidden: int = 5,
        num_samples: int = 64,
        batch_size: int | None = None,
        radius: float = 6.0,
        seed: int = 0,
    ) -> TwoLayerNetwork:
        """Normal inputs, and the outputs of a float network of the same shape as targets."""
        inputs = random_numbers(num_samples, num_inputs, seed=seed)
        teacher = random_numbers(num_hidden, num_inputs + 1, seed=seed + 1_000_000)
        targets = torch.tanh(inputs @ teacher[:, :-1].T) @ teacher[:, -1]
        return cls(inputs, targets, num_hidden, batch_size, radius)

    @property
    def layer_sizes(self) -> tuple[int, int]:
        return (self.num_hidden * self.inputs.shape[1], self.num_hidden)

    @property
    def num_weights(self) -> int:
        return sum(self.layer_sizes)

    def value(self, x: Tensor) -> Tensor:
        first, second = self._layers(x)
        return (torch.tanh(self.inputs @ first.T) @ second - self.targets).square().mean() / 2

    def gradient(self, x: Tensor) -> Tensor:
        return self.sample_gradients(x).mean(0)

    def noisy_gradient(self, x: Tensor, generator: Generator) -> Tensor:
        if self.batch_size is None:
            return self.gradient(x)
        chosen = torch.randint(len(self.inputs), (self.batch_size,), generator=generator)
        return self.sample_gradients(x, chosen).mean(0)

    def sample_gradients(self, x: Tensor, chosen: Tensor | slice = slice(None)) -> Tensor:
        """The gradient of each chosen sample's loss, one row each."""
        first, second = self._layers(x)
        inputs = self.inputs[chosen]
        hidden = torch.tanh(inputs @ first.T)
        error = hidden @ second - self.targets[chosen]
        back = error[:, None] * second * (1 - hidden.square())
        of_first = (back[:, :, None] * inputs[:, None, :]).flatten(1)
        return torch.cat([of_first, error[:, None] * hidden], 1)

    @cached_property
    def L(self) -> float:
        """The largest spectral norm of the Hessian found in the ball, raised by ``MARGIN``."""
        hessian = torch.func.hessian(self.value)
        return MARGIN * self._worst(lambda x: torch.linalg.eigvalsh(hessian(x)).abs().max())

    @cached_property
    def sigma(self) -> float:
        """The largest root mean squared error of ∇f_k found in the ball, raised by ``MARGIN``."""
        if self.batch_size is None:
            return 0.0
        return MARGIN * self._worst(self.noise_at)

    @cached_property
    def proven_L(self) -> float:
        """A bound of the Hessian's norm in the ball that needs no search; far from tight.

        ||∇²f|| <= mean_j (||∇p_j||^2 + |p_j - u_j| ||∇²p_j||) with p_j = v' tanh(W z_j).
        """
        norms, r = self.inputs.norm(dim=1), self.radius
        slopes = self.num_hidden + r**2 * norms.square()
        errors = self.num_hidden**0.5 * r + self.targets.abs()
        return float((slopes + errors * (CURVATURE_OF_TANH * r * norms.square() + norms)).mean())

    def noise_at(self, x: Tensor) -> Tensor:
        """Root of E||∇f_k(x) - ∇f(x)||^2, exactly: the variance over samples / batch_size."""
        rows = self.sample_gradients(x)
        variance = (rows - rows.mean(0)).square().sum(1).mean()
        return (variance / (self.batch_size or len(rows))).sqrt()

    def _layers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = x.split_with_sizes(self.layer_sizes)
        return first.view(self.num_hidden, -1), second

    def _worst(self, quantity: Callable[[Tensor], Tensor]) -> float:
        """The largest value found of a differentiable quantity in the ball."""
        generator, n = Generator().manual_seed(0), self.num_weights
        points = torch.randn(NUM_POINTS, n, generator=generator, dtype=torch.float64)
        points = points / points.norm(dim=1, keepdim=True) * self.radius
        at_many = torch.func.vmap(quantity)
        points = points[at_many(points).topk(NUM_CLIMBERS).indices]
        slopes = torch.func.vmap(torch.func.grad(quantity))
        worst = at_many(points).max()
        for step in range(NUM_CLIMBS):
            uphill = slopes(points)
            uphill = uphill / uphill.norm(dim=1, keepdim=True) * self.radius / (2 + step)
            points = points + uphill
            points = points * (self.radius / points.norm(dim=1, keepdim=True)).clamp(max=1)
            worst = torch.maximum(worst, at_many(points).max())
        return worst.item()
