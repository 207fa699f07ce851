"""The main theorem (``thm``): its hypotheses, both conclusions and their right-hand sides.

Expectations are means over runs that differ in their noise alone, and begin at the same x^0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from binaryrelax import Binary, PerChannel, Quantizer
from binaryrelax.lab.theory.iterations import Trajectory, binary_connect
from binaryrelax.lab.theory.problems import Problem, Quadratic
from binaryrelax.lab.theory.quantities import alphas, changes_line, movements

TAIL = 1 / 5  # of the steps: where limits are read off
START = 6  # first steps that it takes the weights of ``planted_start`` to reach 0, up to 4 times


@dataclass(frozen=True, eq=False)
class TheoremRun:
    """Runs of BinaryConnect on one problem, (K + 1, runs, n), one scale for all weights.

    Args:
        problem: with f >= 0 and its constants L and σ.
        run: the runs.
    """

    problem: Problem
    run: Trajectory

    @property
    def lowest_alpha(self) -> float:
        """The largest α̲ that these runs allow: the smallest α_k of a step that moved x."""
        found = alphas(self.run)
        return found[~found.isnan()].min().item()

    @property
    def highest_alpha(self) -> float:
        """The smallest ᾱ that these runs allow."""
        found = alphas(self.run)
        return found[~found.isnan()].max().item()

    @property
    def largest_allowed_step(self) -> float:
        """α̲ / (2L), which every step size must stay below."""
        return self.lowest_alpha / (2 * self.problem.L)

    @property
    def obeys_step_rule(self) -> bool:
        """γ_{k+1} <= γ_k <= γ < α̲ / (2L)."""
        sizes = self.run.step_sizes
        falls = all(after <= before for before, after in pairwise(sizes))
        return falls and sizes[0] < self.largest_allowed_step

    @property
    def line_changes(self) -> Tensor:
        """How often each run changed its line."""
        return changes_line(self.run).sum(0)

    @property
    def mean_square_movements(self) -> Tensor:
        """E||x^{k+1} - x^k||^2 by k; the first conclusion is that it goes to 0."""
        return movements(self.run).square().mean(-1)

    @property
    def movement_bound(self) -> float:
        """What Σ_k E||x^{k+1} - x^k||^2 cannot exceed, from (Lyap) in the proof of ``thm``.

        (α̲ - 2γL)/4 Σ E||x^{k+1} - x^k||^2 <= γ f(x^0) + σ²/α̲ Σ γ_k²

        The paper's proof has lost the 4 on its way; its conclusion does not need it.
        """
        low, sizes = self.lowest_alpha, self.run.step_sizes
        first_value = self.problem.value(self.run.x[0]).mean().item()
        noise = self.problem.sigma**2 / low * sum(size**2 for size in sizes)
        return 4 * (sizes[0] * first_value + noise) / (low - 2 * sizes[0] * self.problem.L)

    @property
    def mean_square_stationarity(self) -> Tensor:
        """E[dist(0, ∂h(x^k))^2] by k, on the line through x^k (x^k != 0)."""
        x = self.run.x
        slopes = (self.problem.gradient(x) * x).sum(-1) / x.norm(dim=-1)
        return slopes.square().mean(-1)

    @property
    def limit_inferior(self) -> float:
        """liminf of that, read off the last steps."""
        tail = self.mean_square_stationarity
        return tail[-int(len(tail) * TAIL) :].min().item()

    @property
    def bound(self) -> float:
        """3σ²(4ᾱ/α̲² + 1), the right-hand side of the second conclusion."""
        ratio = 4 * self.highest_alpha / self.lowest_alpha**2
        return 3 * self.problem.sigma**2 * (ratio + 1)


def run_theorem(
    problem: Quadratic,
    start: Tensor,
    step_sizes: Sequence[float],
    *,
    num_runs: int,
    seed: int = 0,
    quantizer: Quantizer | None = None,
) -> TheoremRun:
    """Several runs at once from one start, each with noise of its own."""
    per_run = quantizer or Binary(granularity=PerChannel())
    starts = start.expand(num_runs, -1).clone()
    return TheoremRun(problem, binary_connect(problem, per_run, starts, step_sizes, seed=seed))


def planted_start(problem: Quadratic, step_size: float, *, seed: int = 0) -> Tensor:
    """Small weights of the wrong sign, each of another size: they change sign one by one.

    At a change of line α_k is about the fraction (weight that flips) / scale. The sizes are in
    units of a first step, so that α does not fall with the step size and the step rule can hold.
    """
    generator = torch.Generator().manual_seed(seed)
    spread = torch.rand(problem.num_weights, generator=generator, dtype=torch.float64)
    first_step = step_size * problem.gradient(torch.zeros_like(problem.center)).norm()
    return -problem.center * (1 + 3 * spread) * START * first_step / math.sqrt(problem.num_weights)
