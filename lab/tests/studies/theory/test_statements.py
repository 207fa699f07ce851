"""Each lemma and proposition of the paper, over generated cases.

``statement_table.py`` runs the same checks over cases of its own, and counts those.
"""

import itertools

import pytest
import torch
from hypothesis import given, settings
from lab.tests.studies.theory.cases import quadratics, steps, strengths, vectors
from lab.tests.studies.theory.runs import all_runs

from binaryrelax import Binary, Quantizer
from binaryrelax_lab.studies.theory.lines_of_q import smallest_angle
from binaryrelax_lab.studies.theory.quantities import alpha, changes_line
from binaryrelax_lab.studies.theory.relaxed_objective import relaxed_value
from binaryrelax_lab.studies.theory.statement_table import NUM_EXAMPLES
from binaryrelax_lab.studies.theory.statements import (
    ROUNDING,
    SETS,
    Case,
    alpha_is_not_negative,
    alpha_of_short_steps_is_one,
    alpha_stays_below_its_ceiling,
    alternative_update_is_the_update,
    make_step,
    movement_on_the_line_is_bounded,
    points_of_q_are_no_relaxed_minima,
    relaxed_minima_converge,
    relaxed_step_is_proximal,
    update_is_a_local_minimizer,
    value_stays_below_its_model,
    zero_alpha_needs_a_tie,
)

many = settings(max_examples=NUM_EXAMPLES)


def holds(slack: float | None) -> bool:
    return slack is None or slack >= -ROUNDING


@many
@given(case=steps())
def test_approximate_orthogonality_lem_othor(case):
    assert holds(alpha_is_not_negative(case))


@many
@given(case=steps())
def test_short_steps_have_alpha_one_prop_alpha(case):
    assert holds(alpha_of_short_steps_is_one(case))


@many
@given(case=steps())
def test_alternative_update_lem_alt_update(case):
    assert holds(alternative_update_is_the_update(case))


@many
@given(case=steps())
def test_update_is_a_local_minimizer_lem_alt_update(case):
    assert holds(update_is_a_local_minimizer(case))


@many
@given(case=steps())
def test_upper_bound_lem_upper(case):
    assert holds(movement_on_the_line_is_bounded(case))


@many
@given(case=steps())
def test_alpha_is_small_where_a_small_step_changes_line(case):
    assert holds(alpha_stays_below_its_ceiling(case))


WHOLE = [float(number) for number in range(-3, 4)]


@pytest.mark.parametrize("quantizer", SETS[:2], ids=repr)
def test_alpha_zero_needs_a_tie_and_an_orthogonal_gradient_prop_alpha(quantizer: Quantizer):
    """Every step among small whole numbers in the plane, where nothing is rounded."""
    found = 0
    for numbers in itertools.product(WHOLE, repeat=4):
        y, gradient = torch.tensor(numbers, dtype=torch.float64).split(2)
        case = Case(quantizer, make_step(quantizer, y, gradient, 1.0))
        slack = zero_alpha_needs_a_tie(case)
        assert slack is None or slack == 0
        found += slack is not None
    assert found >= 10 or quantizer != Binary()  # ternary ties in the plane are irrational


@many
@given(given_quadratic=quadratics())
def test_relaxed_minima_converge_prop_global(given_quadratic):
    assert holds(relaxed_minima_converge(*given_quadratic))


@many
@given(case=steps(), strength=strengths)
def test_relaxed_projection_is_the_proximal_point_prop_approx_quant(case, strength):
    assert holds(relaxed_step_is_proximal(case.quantizer, case.step.y, strength))


@many
@given(given_quadratic=quadratics(), strength=strengths, y=vectors(4))
def test_points_of_q_are_no_relaxed_minima_thm_local(given_quadratic, strength, y):
    problem, quantizer = given_quadratic
    x = quantizer.project(y[: problem.num_weights])
    slack = points_of_q_are_no_relaxed_minima(problem, quantizer, x, strength)
    assert slack is None or slack >= -1e-3  # of what (9) falls by, when it falls by 1e-3 of a step


@many
@given(given_quadratic=quadratics(), x=vectors(4), z=vectors(4))
def test_value_stays_below_its_model_lem_descent(given_quadratic, x, z):
    """A network that is not convex is tried in test_problems.py."""
    problem, _ = given_quadratic
    ends = (point[: problem.num_weights] for point in (x, z))
    assert holds(value_stays_below_its_model(problem, *ends))


@given(given_quadratic=quadratics(), strength=strengths)
def test_a_critical_point_in_q_is_a_relaxed_minimum_thm_local(given_quadratic, strength):
    """The exception of thm:local: ∇f(x) = 0 at a point of Q."""
    problem, quantizer = given_quadratic
    x = quantizer.project(problem.center)
    planted = type(problem)(problem.matrix, x)
    least = relaxed_value(planted, quantizer, x, strength)
    assert least <= relaxed_value(planted, quantizer, x + problem.center / 100, strength)


@pytest.mark.parametrize("name", all_runs())
def test_every_step_of_the_runs_obeys_the_lemmas(name):
    """lem:othor, prop:alpha, lem:alt_update and lem:upper along real runs, which change line."""
    quantizer, run = all_runs()[name]()
    assert changes_line(run).sum() >= 10
    found = 0
    for step in run.steps():
        case = Case(quantizer, step)
        assert holds(alpha_is_not_negative(case))
        assert holds(alternative_update_is_the_update(case))
        assert holds(movement_on_the_line_is_bounded(case))
        assert holds(alpha_of_short_steps_is_one(case))
        assert holds(alpha_stays_below_its_ceiling(case))
        found += case.changes_line and alpha(step) < 0.9
    assert found >= 10


@pytest.mark.parametrize("quantizer", SETS, ids=repr)
def test_smallest_angle_is_that_of_all_pairs_of_lines(quantizer):
    for num_weights in (2, 3, 4):
        lines = Case(
            quantizer, make_step(quantizer, *torch.ones(2, num_weights).double(), 1.0)
        ).lines
        closest = max(abs((a @ b).item()) for a, b in itertools.combinations(lines, 2))
        angle = smallest_angle(quantizer, num_weights)
        assert torch.tensor(angle).cos().item() == pytest.approx(closest, abs=1e-6)
