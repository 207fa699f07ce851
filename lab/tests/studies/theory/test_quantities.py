"""Quantities of single points and steps."""

import math

import pytest
import torch

from binaryrelax import Binary, Ternary
from binaryrelax.optim.schedules import GeometricGrowth
from binaryrelax_lab.studies.theory.iterations import binary_connect, binary_relax, constant
from binaryrelax_lab.studies.theory.lines_of_q import direction_of, directions, smallest_angle
from binaryrelax_lab.studies.theory.problems import figure_one, random_numbers
from binaryrelax_lab.studies.theory.quantities import (
    alpha,
    alphas,
    distances,
    movements,
    stationarity,
)


def test_figure_one_has_four_lines():
    problem, quantizer = figure_one()
    assert len(directions(quantizer, 2)) == 4
    assert smallest_angle(quantizer, 2) == pytest.approx(math.pi / 4)
    assert not torch.equal(quantizer.project(problem.center), problem.center)


def test_quantities_of_a_run_are_those_of_its_steps():
    problem, quantizer = figure_one(0.5)
    run = binary_connect(problem, quantizer, random_numbers(2, seed=0), constant(0.1, 50))
    assert len(run) == len(list(run.steps())) == 50
    torch.testing.assert_close(
        alphas(run), torch.tensor([alpha(step) for step in run.steps()]).double()
    )
    assert movements(run)[7] == (run.x[8] - run.x[7]).norm()
    assert distances(run, quantizer).max() < 1e-15


def test_distance_to_q_of_a_relaxed_run_falls_with_the_strength():
    problem, quantizer = figure_one()
    schedule = GeometricGrowth.reaching(100.0, phase_one_steps=80, every=1)
    start = random_numbers(2, seed=0)
    run = binary_relax(problem, quantizer, start, constant(0.1, 100), schedule=schedule)
    found = distances(run, quantizer)
    expected = [
        (y - quantizer.project(y)).norm().item() / (schedule(k) + 1)
        for k, y in enumerate(run.y[1:])
    ]
    assert found[1:].tolist() == pytest.approx(expected, abs=1e-12)
    assert found[-1] == 0


def test_alpha_where_x_stays_is_not_a_number():
    problem, quantizer = figure_one()
    run = binary_connect(problem, quantizer, random_numbers(2, seed=0), constant(0.0, 3))
    assert alphas(run).isnan().all()


def test_stationarity_at_zero_is_the_smallest_over_all_lines():
    problem, quantizer = figure_one()
    zero, lines = torch.zeros(2, dtype=torch.float64), directions(quantizer, 2)
    nearly = [stationarity(problem, 1e-12 * line) for line in lines]
    assert stationarity(problem, zero, lines).item() == pytest.approx(min(nearly).item())
    with pytest.raises(ValueError, match="needs the lines"):
        stationarity(problem, zero)
    with pytest.raises(ValueError, match=r"direction_of\(0\)"):
        direction_of(zero)


def test_smallest_angle_of_many_weights_needs_no_list():
    assert math.cos(smallest_angle(Binary(), 1000)) == pytest.approx(0.998)
    assert math.sin(smallest_angle(Ternary(), 10_000)) == pytest.approx(0.01)
    assert smallest_angle(Binary(), 1) == math.pi / 2
