"""Families of small problems, computed for all their members and many points at once.

Points are tensors (..., members, points, weights); a family knows the best point of every line.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax_lab.studies.theory.problems import Quadratic


@dataclass(frozen=True, eq=False)
class QuadraticFamily:
    """f(x) = (x − m)ᵀ A (x − m) / 2, with a matrix A and a float minimiser m for each member.

    The largest eigenvalue, and so the Lipschitz constant L of the gradient, is 1.
    """

    matrices: Tensor  # (members, weights, weights)
    minimisers: Tensor  # (members, weights)

    @classmethod
    def random(
        cls, num_members: int, num_weights: int, *, condition: float, seed: int
    ) -> "QuadraticFamily":
        """As many random quadratics with eigenvalues from 1/condition to 1."""
        seeds = range(num_members * seed, num_members * (seed + 1))
        members = [Quadratic.random(num_weights, mu=1 / condition, seed=s) for s in seeds]
        return cls(
            torch.stack([m.matrix for m in members]), torch.stack([m.center for m in members])
        )

    def value(self, x: Tensor) -> Tensor:
        """f at each point."""
        gap = x - self.minimisers[:, None]
        return (gap @ self.matrices * gap).sum(-1) / 2

    def gradient(self, x: Tensor) -> Tensor:
        """∇f at each point."""
        return (x - self.minimisers[:, None]) @ self.matrices

    def best_on_lines(self, codes: Tensor) -> Tensor:
        """min over s of f(s·codes), (members, lines); codes are (lines, weights) or one set each.

        s* = ⟨c, Am⟩ / ⟨c, Ac⟩ is where the gradient is orthogonal to the line.
        """
        pull = (self.matrices @ self.minimisers[:, :, None])[..., 0]
        along = (codes * pull[:, None]).sum(-1)
        bend = (codes @ self.matrices * codes).sum(-1)
        at_zero = (self.minimisers * pull).sum(-1) / 2
        return at_zero[:, None] - along.square() / (2 * bend)


@dataclass(frozen=True, eq=False)
class PhaseRetrievalFamily:
    """f(x) = mean over j of ((a_j·x)² − b_j)² / 4 with b_j = (a_j·m)²: smooth and not convex.

    The signs of the measurements are lost, so m and −m are both float minimisers, with f = 0.
    """

    measurements: Tensor  # (members, measurements, weights)
    minimisers: Tensor  # (members, weights)

    @classmethod
    def random(
        cls, num_members: int, num_weights: int, *, num_measurements: int, seed: int
    ) -> "PhaseRetrievalFamily":
        """Normal measurements of length about 1, and normal minimisers."""
        source = torch.Generator().manual_seed(seed)
        shape = (num_members, num_measurements, num_weights)
        measurements = torch.randn(shape, generator=source, dtype=torch.float64)
        minimisers = torch.randn((num_members, num_weights), generator=source, dtype=torch.float64)
        return cls(measurements / math.sqrt(num_weights), minimisers)

    @property
    def targets(self) -> Tensor:
        """b, (members, measurements)."""
        return (self.measurements @ self.minimisers[:, :, None])[..., 0].square()

    def value(self, x: Tensor) -> Tensor:
        """f at each point."""
        seen = x @ self.measurements.mT
        return (seen.square() - self.targets[:, None]).square().mean(-1) / 4

    def gradient(self, x: Tensor) -> Tensor:
        """∇f at each point."""
        seen = x @ self.measurements.mT
        miss = (seen.square() - self.targets[:, None]) * seen
        return miss @ self.measurements / self.measurements.shape[1]

    def best_on_lines(self, codes: Tensor) -> Tensor:
        """min over s of f(s·codes), (members, lines): f is a parabola in s²."""
        seen = (codes @ self.measurements.mT).square()
        targets = self.targets[:, None]
        square = (seen * targets).sum(-1, keepdim=True) / seen.square().sum(-1, keepdim=True)
        return (square * seen - targets).square().mean(-1) / 4


Family = QuadraticFamily | PhaseRetrievalFamily
