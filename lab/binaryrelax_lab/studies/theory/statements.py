"""The statements of the paper as checks: each says by how much it holds in one case.

A check returns its slack in units of the case, which is negative where the statement fails (by more
than ``ROUNDING`` where it is not rounding), and None where the statement says nothing. The lemmas
speak of any step of BinaryConnect, and any gradient is that of some f: a case is a set Q, a y and a
gradient, nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Generator, Tensor

from binaryrelax import Binary, Levels, PowerOfTwo, Quantizer, Ternary, Uniform
from binaryrelax_lab.studies.theory.iterations import Projection, Step
from binaryrelax_lab.studies.theory.lines_of_q import directions, smallest_angle
from binaryrelax_lab.studies.theory.problems import Problem, Quadratic
from binaryrelax_lab.studies.theory.quantities import (
    SAME_LINE,
    alpha,
    alpha_ceiling,
    alternative_update,
    is_local_minimizer,
    is_short,
    target,
    upper_bound_slack,
)
from binaryrelax_lab.studies.theory.relaxed_objective import (
    best_in_q,
    best_proximal,
    best_relaxed,
    relaxed_value,
)

ROUNDING = 1e-9
SETS: tuple[Quantizer, ...] = (
    Binary(), Ternary(), Uniform(bits=3), PowerOfTwo(bits=3), Levels((1, 2)),
)  # fmt: skip
MOST_WEIGHTS = 4  # as many as let all lines be listed quickly
STRENGTHS = tuple(10.0**k for k in range(-2, 9))
LARGE = 1e6  # λ from which the limits of prop:global are close

lines_of = lru_cache(maxsize=None)(directions)
angle_of = lru_cache(maxsize=None)(smallest_angle)


def make_step(q: Projection, y: Tensor, gradient: Tensor, step_size: float) -> Step:
    """The step of eq. 12 from y^k with x^k = proj_Q(y^k)."""
    next_y = torch.add(y, gradient, alpha=-step_size)
    return Step(q.project(y), y, step_size, gradient, q.project(next_y), next_y)


@dataclass(frozen=True, eq=False)
class Case:
    """One step of BinaryConnect on one set Q."""

    quantizer: Quantizer
    step: Step

    @cached_property
    def lines(self) -> Tensor:
        """All lines of Q."""
        return lines_of(self.quantizer, len(self.step.y))

    @cached_property
    def angle(self) -> float:
        """θ_min."""
        return angle_of(self.quantizer, len(self.step.y))

    @property
    def length(self) -> float:
        """The unit of lengths: what rounding errors are to be compared with."""
        moved = self.step.step_size * self.step.gradient.norm()
        return (self.step.y.norm() + moved).item() or 1.0

    @property
    def lines_through_next(self) -> Tensor:
        """The line of x^{k+1}; all lines if it is 0."""
        x = self.step.next_x
        return self.lines if not x.any() else (x / x.norm())[None]

    @property
    def changes_line(self) -> bool:
        """Whether x^{k+1} lies on another line than x^k."""
        x, next_x = self.step.x, self.step.next_x
        return bool((x @ next_x).abs() < (1 - SAME_LINE) * x.norm() * next_x.norm())


def alpha_is_not_negative(case: Case) -> float:
    """lem:othor: ||y^k - x^{k+1}||^2 - ||y^k - x^k||^2 >= 0, so that α_k >= 0."""
    step = case.step
    far, near = (step.y - step.next_x).square().sum(), (step.y - step.x).square().sum()
    return (far - near).item() / case.length**2


def alpha_of_short_steps_is_one(case: Case) -> float | None:
    """prop:alpha, first half: α_k = 1 if ||x^{k+1} - x^k|| < ||x^k|| sin θ_min."""
    step = case.step
    if not is_short(step, case.angle * (1 - ROUNDING)):
        return None
    change = step.next_x - step.x  # α - 1 = 2<change, x - y>/||change||^2: bad when change is tiny
    return -(change @ (step.x - step.y)).abs().item() / case.length**2


def zero_alpha_needs_a_tie(case: Case) -> float | None:
    """prop:alpha, second half: α_k = 0 asks for a tie and a gradient orthogonal to the new line."""
    step = case.step
    if alpha(step) != 0:  # exactly; NaN where x stays: the cases must compute without rounding
        return None
    tie = ((step.y - step.next_x).norm() - (step.y - step.x).norm()).abs() / case.length
    slope = (case.lines_through_next @ step.gradient).abs().max() / case.length
    return -max(float(tie), float(slope))


def alpha_stays_below_its_ceiling(case: Case) -> float | None:
    """Not in the paper: α_k <= 4δ(||y^k - x^k|| + δ)/(||x^k|| sin θ_min)^2 at a change of line."""
    if not case.changes_line:
        return None
    return alpha_ceiling(case.step, case.angle) - alpha(case.step)


def alternative_update_is_the_update(case: Case) -> float:
    """lem:alt_update, first half, for each line through x^{k+1}."""
    found = [alternative_update(case.step, line) for line in case.lines_through_next]
    return -max(float((x - case.step.next_x).norm()) for x in found) / case.length


def update_is_a_local_minimizer(case: Case) -> float | None:
    """lem:alt_update, second half, where x^{k+1} != 0."""
    if not case.step.next_x.any():
        return None
    aim = target(case.step, case.lines_through_next[0])
    return 0.0 if is_local_minimizer(case.step.next_x, aim, case.lines) else -1.0


def movement_on_the_line_is_bounded(case: Case) -> float:
    """lem:upper, for each line through x^{k+1}."""
    slacks = [upper_bound_slack(case.step, line) for line in case.lines_through_next]
    return min(slacks).item() / case.length**2


def relaxed_minima_converge(problem: Quadratic, quantizer: Quantizer) -> float:
    """prop:global for a coercive f, with the rates of its proof.

    dist(x*_λ, Q) <= sqrt(2 (f*_Q - f*)/λ), and f(x*_λ) -> f*_Q from below: at most
    ||∇f(x*_λ)|| d + L/2 d^2 away, d = dist(x*_λ, Q).
    """
    lines = lines_of(quantizer, problem.num_weights)
    best, _ = best_in_q(problem, lines)
    slacks = []
    for strength in STRENGTHS:
        x = best_relaxed(problem, lines, strength)
        gap = (x - quantizer.project(x)).norm().item()
        missing = best - problem.value(x).item()
        rate = problem.gradient(x).norm().item() * gap + problem.L / 2 * gap**2
        slacks += [(2 * best / strength) ** 0.5 - gap, missing, rate - missing]
        if strength >= LARGE:
            slacks += [1e-2 - gap, 1e-2 - missing]
    return min(slacks) / max(1.0, best)


def relaxed_step_is_proximal(quantizer: Quantizer, y: Tensor, strength: float) -> float:
    """prop:approx_quant: (λ proj(y) + y)/(λ + 1) attains the minimum of eq. 10's second line."""
    x = (strength * quantizer.project(y) + y) / (strength + 1)
    penalty = strength / 2 * (x - quantizer.project(x)).square().sum()
    attained = (x - y).square().sum() / 2 + penalty
    least = best_proximal(y, lines_of(quantizer, len(y)), strength)
    return (least - attained.item()) / max(1.0, y.square().sum().item())


def points_of_q_are_no_relaxed_minima(
    problem: Quadratic, quantizer: Quantizer, x: Tensor, strength: float
) -> float | None:
    """thm:local: from x in Q with ∇f(x) != 0, (9) falls along -∇f(x), however small the step.

    A step β <= 1/(L + λ) lowers it by at least β/2 ||∇f(x)||^2.
    """
    slope = problem.gradient(x)
    if slope.norm() <= ROUNDING:
        return None
    before, slacks = relaxed_value(problem, quantizer, x, strength), []
    for shorter in (1.0, 1e-1, 1e-2, 1e-3):
        size = shorter / (problem.L + strength)
        after = relaxed_value(problem, quantizer, x - size * slope, strength)
        promised = size / 2 * slope.square().sum()
        slacks.append(((before - after) / promised - 1).item())
    return min(slacks)


def value_stays_below_its_model(problem: Problem, x: Tensor, z: Tensor) -> float:
    """lem:descent: f(x) <= f(z) + <∇f(z), x - z> + L/2 ||x - z||^2."""
    way = x - z
    model = problem.value(z) + problem.gradient(z) @ way + problem.L / 2 * way.square().sum()
    return (model - problem.value(x)).item() / max(1.0, model.item())


def random_case(generator: Generator) -> Case:
    """A set, a y and a gradient; half of the cases are small whole numbers, full of ties."""
    pick = int(torch.randint(len(SETS), (1,), generator=generator))
    num_weights = int(torch.randint(1, MOST_WEIGHTS + 1, (1,), generator=generator))
    if torch.rand(1, generator=generator) < 0.5:
        numbers = torch.randint(-4, 5, (2, num_weights), generator=generator).double()
        step_size = 0.5
    else:
        numbers = torch.randn(2, num_weights, generator=generator, dtype=torch.float64)
        step_size = 10 ** (-3 * torch.rand(1, generator=generator).item())
    return Case(SETS[pick], make_step(SETS[pick], numbers[0], numbers[1], step_size))


STEP_CHECKS: dict[str, Callable[[Case], float | None]] = {
    "lem:othor": alpha_is_not_negative,
    "prop:alpha, short steps": alpha_of_short_steps_is_one,
    "prop:alpha, zero": zero_alpha_needs_a_tie,
    "lem:alt_update": alternative_update_is_the_update,
    "lem:alt_update, local minimizer": update_is_a_local_minimizer,
    "lem:upper": movement_on_the_line_is_bounded,
    "ceiling of alpha": alpha_stays_below_its_ceiling,
}
