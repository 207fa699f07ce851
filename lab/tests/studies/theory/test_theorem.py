"""The main theorem over seeds, with its step-size rule."""

import pytest
import torch

from binaryrelax_lab.studies.theory.iterations import harmonic
from binaryrelax_lab.studies.theory.problems import Quadratic, random_numbers
from binaryrelax_lab.studies.theory.quantities import alphas, stationarity
from binaryrelax_lab.studies.theory.theorem import PAIRS, TAIL, planted_run, run_theorem


@pytest.mark.parametrize(("sigma", "L"), PAIRS)
def test_both_conclusions_hold_under_the_step_rule_thm(sigma, L):
    found = planted_run(sigma, L)
    assert found.line_changes.min() >= 10
    assert 0 < found.lowest_alpha < 0.2 and found.highest_alpha == pytest.approx(1)
    assert found.obeys_step_rule
    moved = found.mean_square_movements
    tail = int(len(moved) * TAIL)
    assert moved[-tail:].max() < 1e-3 * moved[:tail].max()
    assert moved.sum() <= found.movement_bound
    assert found.limit_inferior <= found.bound


def test_bound_is_the_formula_of_the_theorem():
    found = planted_run(*PAIRS[0], num_steps=100)
    low, high = found.lowest_alpha, found.highest_alpha
    assert found.bound == pytest.approx(3 * PAIRS[0][0] ** 2 * (4 * high / low**2 + 1))
    assert low == alphas(found.run)[~alphas(found.run).isnan()].min()


def test_stationarity_of_all_runs_at_once_is_that_of_each():
    found = planted_run(*PAIRS[0], num_steps=20)
    each = torch.stack([stationarity(found.problem, x) for x in found.run.x[7]])
    torch.testing.assert_close(found.mean_square_stationarity[7], each.square().mean())


def test_step_rule_cannot_hold_on_a_quadratic_whose_center_is_not_in_q():
    """α at a change of line falls with γ_k: ten times the steps, a smaller α̲, no step allowed."""
    problem = Quadratic.random(6, sigma=0.5, mu=0.5, seed=1)
    start = random_numbers(6, seed=2)
    lowest = []
    for num_steps in (300, 3000):
        found = run_theorem(problem, start, harmonic(0.1, num_steps), num_runs=8)
        assert found.line_changes.min() >= 10 and not found.obeys_step_rule
        assert found.mean_square_movements[-20:].min() > 0.1
        lowest.append(found.lowest_alpha)
    assert lowest[1] < lowest[0] / 2
