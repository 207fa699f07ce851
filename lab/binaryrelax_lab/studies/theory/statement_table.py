"""All statements of section 4 as a table: what each says, its test, its cases, the result."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Generator

from binaryrelax import Binary
from binaryrelax_lab.studies.theory.counterexamples import FAILURES
from binaryrelax_lab.studies.theory.problems import Quadratic, TwoLayerNetwork, random_numbers
from binaryrelax_lab.studies.theory.statements import (
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
    value_stays_below_its_model,
    zero_alpha_needs_a_tie,
)
from binaryrelax_lab.studies.theory.theorem import theorem_row

NUM_EXAMPLES = 200  # that hypothesis generates for each statement
NUM_CASES = 1500  # random steps, each of them for every statement about a step
NUM_PROBLEMS = 200  # random quadratics
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
    "lem:descent": (
        "f(x) <= f(z) + <∇f(z), x - z> + L/2 ||x - z||^2, on quadratics and on a network",
        "test_value_stays_below_its_model_lem_descent",
    ),
}


def statements() -> dict[str, Any]:
    """Each statement of the paper: what it says, its test, its cases and how it came out."""
    checked = {**_steps_checked(), **_relaxation_checked(), "lem:descent": _descent_checked()}
    rows = [_row(label, slacks) for label, slacks in checked.items()]
    return {"examples_in_each_test": NUM_EXAMPLES, "statements": [*rows, theorem_row(), *FAILURES]}


def _row(label: str, slacks: list[float]) -> dict[str, Any]:
    says, test = WORDS[label]
    failures = sum(slack < -ROUNDING for slack in slacks)
    return {
        "label": label,
        "says": says,
        "test": f"lab/tests/studies/theory/test_statements.py::{test}",
        "cases": len(slacks),
        "failures": failures,
        "result": "fails" if failures else "holds",
    }


def _steps_checked() -> dict[str, list[float]]:
    generator = Generator().manual_seed(0)
    cases = [random_case(generator) for _ in range(NUM_CASES)]
    found = {label: _slacks(map(check, cases)) for label, check in STEP_CHECKS.items()}
    return {**found, "prop:alpha, zero": _slacks(map(zero_alpha_needs_a_tie, whole_steps()))}


def whole_steps() -> Iterable[Case]:
    """All binary steps in the plane between small whole numbers: nothing is rounded, many tie."""
    for numbers in itertools.product(range(-3, 4), repeat=4):
        y, gradient = torch.tensor(numbers, dtype=torch.float64).view(2, 2)
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


def _descent_checked() -> list[float]:
    """Between two random points: of as many quadratics, and of a network that is not convex."""
    network, found = TwoLayerNetwork.random(), []
    for seed in range(NUM_PROBLEMS):
        for problem in (Quadratic.random(1 + seed % 4, mu=0.02, seed=seed), network):
            ends = random_numbers(2, problem.num_weights, seed=seed + 7_000)
            reach = ends.norm(dim=1).clamp(min=network.radius) / network.radius
            found.append(value_stays_below_its_model(problem, *(ends / reach[:, None])))
    return found


def _slacks(found: Iterable[float | None]) -> list[float]:
    """Those of the cases about which the statement says something."""
    return [slack for slack in found if slack is not None]
