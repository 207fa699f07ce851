"""What is measured about section 4, as plain data for ``results/theory/``; the same in every run.

``statements`` counts the cases of each statement, ``theorem`` holds the main theorem against its
bound, ``alpha_ranges`` tells which α occur.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor

from binaryrelax import Binary
from binaryrelax.lab.theory.alpha_ranges import alpha_ranges as alpha_ranges
from binaryrelax.lab.theory.counterexamples import endless_changes
from binaryrelax.lab.theory.failures import FAILURES
from binaryrelax.lab.theory.iterations import harmonic
from binaryrelax.lab.theory.problems import Quadratic, random_numbers
from binaryrelax.lab.theory.quantities import alphas, changes_line, movements, stationarity
from binaryrelax.lab.theory.rounding import rounded
from binaryrelax.lab.theory.statements import (
    ROUNDING,
    SETS,
    STEP_CHECKS,
    STRENGTHS,
    Case,
    make_step,
    points_of_q_are_no_relaxed_minima,
    random_case,
    relaxed_minima_converge,
    relaxed_step_is_proximal,
    zero_alpha_needs_a_tie,
)
from binaryrelax.lab.theory.theorem import TAIL, TheoremRun, planted_start, run_theorem

NUM_EXAMPLES = 200  # that hypothesis generates for each statement
NUM_CASES = 1500  # random steps, each of them for every statement about a step
NUM_PROBLEMS = 200  # random quadratics
PAIRS = ((0.1, 1.0), (0.5, 1.0), (1.0, 1.0), (0.5, 4.0), (3.0, 4.0), (0.1, 0.25))  # (σ, L)
NUM_RUNS = 16
NUM_PLANTED = 24  # weights
STEP = 0.001  # γ_0 times L
NUM_STEPS = 6000
NUM_ELSEWHERE = 6  # weights of the quadratics whose center is not in Q

WORDS = {
    "lem:othor": ("α_k >= 0", "test_approximate_orthogonality_lem_othor"),
    "prop:alpha, short steps": (
        "α_k = 1 if ||x^{k+1} - x^k|| < ||x^k|| sin θ_min",
        "test_short_steps_have_alpha_one_prop_alpha",
    ),
    "prop:alpha, zero": (
        "α_k = 0 only at a tie, with ∇f_k orthogonal to the new line",
        "test_alpha_zero_needs_a_tie_and_an_orthogonal_gradient_prop_alpha",
    ),
    "lem:alt_update": (
        "x^{k+1} is the point of its line nearest to x̃^k - γ_k ∇f_k(x^k)",
        "test_alternative_update_lem_alt_update",
    ),
    "lem:alt_update, local minimizer": (
        "... and a local minimizer over Q, where x^{k+1} is not 0",
        "test_update_is_a_local_minimizer_lem_alt_update",
    ),
    "lem:upper": (
        "||x^{k+1} - x̃^k||^2 <= α_k ||x^{k+1} - x^k||^2",
        "test_upper_bound_lem_upper",
    ),
    "ceiling of alpha": (
        "not in the paper: α_k <= 4δ(||y^k - x^k|| + δ)/(||x^k|| sin θ_min)^2 at a change of line, "
        "δ = γ_k ||∇f_k(x^k)||",
        "test_alpha_is_small_where_a_small_step_changes_line",
    ),
    "prop:global": (
        "dist(x*_λ, Q) -> 0 and f(x*_λ) -> f*_Q, for an f that grows to infinity",
        "test_relaxed_minima_converge_prop_global",
    ),
    "prop:approx_quant": (
        "(λ proj(y) + y)/(λ + 1) is the proximal point",
        "test_relaxed_projection_is_the_proximal_point_prop_approx_quant",
    ),
    "thm:local": (
        "no point of Q with ∇f != 0 is a local minimizer of (9)",
        "test_points_of_q_are_no_relaxed_minima_thm_local",
    ),
}


def statements() -> dict[str, Any]:
    """Each statement of the paper: what it says, its test, its cases and how it came out."""
    checked = {**_steps_checked(), **_relaxation_checked()}
    rows = [_row(label, slacks) for label, slacks in checked.items()]
    return {"examples_in_each_test": NUM_EXAMPLES, "statements": [*rows, _theorem_row(), *FAILURES]}


def theorem() -> dict[str, Any]:
    """The main theorem where its assumptions hold, and what happens where they cannot."""
    return {
        "num_runs": NUM_RUNS,
        "center_in_q": [_planted(sigma, L) for sigma, L in PAIRS],
        "center_not_in_q": [_described(elsewhere_run(sigma, L)) for sigma, L in PAIRS],
        "without_noise": _without_noise(),
    }


def planted_run(sigma: float, L: float, *, num_steps: int = NUM_STEPS) -> TheoremRun:
    """Runs that meet the theorem's assumptions: f has its minimum in Q, small wrong weights."""
    problem = Quadratic.planted(NUM_PLANTED, L=L, sigma=sigma, seed=1)
    sizes = harmonic(STEP / L, num_steps, half_after=NUM_STEPS)
    return run_theorem(problem, planted_start(problem, sizes[0]), sizes, num_runs=NUM_RUNS)


def elsewhere_run(sigma: float, L: float) -> TheoremRun:
    """Runs on a quadratic whose center is not in Q: lines change for ever, α_k falls with γ_k."""
    problem = Quadratic.random(NUM_ELSEWHERE, L=L, mu=L / 2, sigma=sigma, seed=1)
    start = random_numbers(NUM_ELSEWHERE, seed=2)
    return run_theorem(problem, start, harmonic(0.1 / L, NUM_STEPS // 3), num_runs=NUM_RUNS)


@cache
def _planted(sigma: float, L: float) -> dict[str, Any]:
    return _described(planted_run(sigma, L))


def _theorem_row() -> dict[str, Any]:
    found = [_planted(sigma, L) for sigma, L in PAIRS]
    failures = sum(
        row["limit_inferior"] > row["bound"] or row["movement_tail"] > row["movement_first"] / 100
        for row in found
    )
    return {
        "label": "thm",
        "says": "under its step rule E||x^{k+1} - x^k||^2 -> 0 and "
        "liminf E[dist(0, ∂h(x^k))^2] <= 3σ²(4ᾱ/α̲² + 1)",
        "test": "tests/lab/theory/test_theorem.py::"
        "test_both_conclusions_hold_under_the_step_rule_thm",
        "cases": len(PAIRS) * NUM_RUNS,
        "failures": failures,
        "result": "fails" if failures else "holds where its assumptions do",
    }


def _steps_checked() -> dict[str, list[float]]:
    generator = Generator().manual_seed(0)
    cases = [random_case(generator) for _ in range(NUM_CASES)]
    found = {label: _slacks(map(check, cases)) for label, check in STEP_CHECKS.items()}
    return {**found, "prop:alpha, zero": _slacks(map(zero_alpha_needs_a_tie, whole_steps()))}


def whole_steps() -> Iterable[Case]:
    """All binary steps in the plane between small whole numbers: nothing is rounded, many tie."""
    for numbers in itertools.product(range(-3, 4), repeat=4):
        y, gradient = torch.tensor(numbers, dtype=torch.float64).split(2)
        yield Case(Binary(), make_step(Binary(), y, gradient, 1.0))


def _relaxation_checked() -> dict[str, list[float]]:
    limits, proximal, local = [], [], []
    for seed in range(NUM_PROBLEMS):
        quantizer, strength = SETS[seed % len(SETS)], STRENGTHS[seed % len(STRENGTHS)]
        problem = Quadratic.random(1 + seed % 4, mu=0.02, seed=seed)
        y = random_numbers(problem.num_weights, seed=seed + 5_000)
        limits.append(relaxed_minima_converge(problem, quantizer))
        proximal.append(relaxed_step_is_proximal(quantizer, y, strength))
        x = quantizer.project(y)
        local.append(points_of_q_are_no_relaxed_minima(problem, quantizer, x, strength))
    return {
        "prop:global": _slacks(limits),
        "prop:approx_quant": _slacks(proximal),
        "thm:local": _slacks(local),
    }


def _slacks(found: Iterable[float | None]) -> list[float]:
    """Those of the cases about which the statement says something."""
    return [slack for slack in found if slack is not None]


def _row(label: str, slacks: list[float]) -> dict[str, Any]:
    says, test = WORDS[label]
    failures = sum(slack < -ROUNDING for slack in slacks)
    return {
        "label": label,
        "says": says,
        "test": f"tests/lab/theory/test_statements.py::{test}",
        "cases": len(slacks),
        "failures": failures,
        "result": "fails" if failures else "holds",
    }


def _described(found: TheoremRun) -> dict[str, Any]:
    """One (σ, L): assumptions, then both conclusions."""
    moved, changed = found.mean_square_movements, changes_line(found.run)
    tail = int(len(moved) * TAIL)
    changes, at_changes = found.line_changes, alphas(found.run)[changed]
    return {
        "sigma": found.problem.sigma,
        "L": rounded(found.problem.L),
        "steps": len(moved),
        "first_step_size": rounded(found.run.step_sizes[0]),
        "line_changes": [int(changes.min()), int(changes.max())],
        "line_changes_in_the_tail": int(changed[-tail:].sum()),
        "alpha": [rounded(found.lowest_alpha), rounded(found.highest_alpha)],
        "alpha_at_changes": [rounded(at_changes.min()), rounded(at_changes.max())],
        "largest_allowed_step": rounded(found.largest_allowed_step),
        "obeys_step_rule": found.obeys_step_rule,
        "movement_first": rounded(moved[:tail].max()),
        "movement_tail": rounded(moved[-tail:].max()),
        "stationarity_first": rounded(found.mean_square_stationarity[0]),
        "limit_inferior": rounded(found.limit_inferior),
        "bound": rounded(found.bound),
    }


def _without_noise() -> dict[str, Any]:
    """The run of ``endless_changes``: σ = 0, so the theorem's bound would be 0."""
    problem, run = endless_changes()
    changed, tail = changes_line(run), int(len(run) * TAIL)
    sizes = torch.tensor(run.step_sizes, dtype=torch.float64)
    ratios: Tensor = alphas(run)[changed] / sizes[changed]
    return {
        "center": problem.center.tolist(),
        "steps": len(run),
        "line_changes": int(changed.sum()),
        "line_changes_in_the_tail": int(changed[-tail:].sum()),
        "largest_alpha_over_step_size_at_changes": rounded(ratios.max()),
        "smallest_alpha": rounded(alphas(run)[changed].min()),
        "movement_tail": rounded(movements(run)[-tail:].square().max()),
        "limit_inferior": rounded(min(stationarity(problem, x) ** 2 for x in run.x[-tail:])),
        "bound": 0.0,
    }
