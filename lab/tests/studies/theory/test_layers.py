"""One scale per layer: Q is a product of unions of lines, and α is measured layer by layer."""

import pytest
import torch
from lab.tests.studies.theory.runs import network

from binaryrelax import Binary, BinaryRelax, Hard, Ternary, measure, monitor
from binaryrelax_lab.studies.theory.iterations import (
    LayerWise,
    Trajectory,
    binary_connect,
    constant,
)
from binaryrelax_lab.studies.theory.lines_of_q import direction_of
from binaryrelax_lab.studies.theory.problems import random_numbers
from binaryrelax_lab.studies.theory.quantities import (
    alphas,
    changes_line,
    layer_alphas,
    layer_stationarity,
    movements,
)
from binaryrelax_lab.studies.theory.statements import (
    ROUNDING,
    Case,
    alpha_is_not_negative,
    alpha_of_short_steps_is_one,
    alternative_update_is_the_update,
    movement_on_the_line_is_bounded,
)

SETS = [Binary(), Ternary()]


def layer_run(quantizer):
    problem = network(8)
    start = random_numbers(problem.num_weights, seed=1) / 2
    q = LayerWise(quantizer, problem.layer_sizes)
    return problem, binary_connect(problem, q, start, constant(0.02, 300))


def layers_of(problem, run):
    parts = zip(
        *(t.split(problem.layer_sizes, 1) for t in (run.x, run.y, run.gradients)), strict=True
    )
    return [Trajectory(x, y, run.step_sizes, gradients) for x, y, gradients in parts]


@pytest.mark.parametrize("quantizer", SETS, ids=repr)
def test_each_layer_obeys_the_lemmas_by_itself(quantizer):
    problem, run = layer_run(quantizer)
    for part in layers_of(problem, run):
        assert changes_line(part).sum() >= 10
        for step in part.steps():
            case = Case(quantizer, step)
            assert alpha_is_not_negative(case) >= -ROUNDING
            assert alternative_update_is_the_update(case) >= -ROUNDING
            assert movement_on_the_line_is_bounded(case) >= -ROUNDING
            assert (alpha_of_short_steps_is_one(case) or 0) >= -ROUNDING


@pytest.mark.parametrize("quantizer", SETS, ids=repr)
def test_alpha_of_the_network_is_the_weighted_mean_of_its_layers(quantizer):
    problem, run = layer_run(quantizer)
    weights = torch.stack([movements(part).square() for part in layers_of(problem, run)], 1)
    found = layer_alphas(run, problem.layer_sizes).nan_to_num()
    expected = (found * weights).sum(1) / weights.sum(1)
    moved = ~alphas(run).isnan()
    torch.testing.assert_close(alphas(run)[moved], expected[moved])


def test_the_library_measures_the_same_alpha_in_each_layer():
    problem, run = layer_run(Binary())
    parts = run.y[0].split(problem.layer_sizes)
    weights = [torch.nn.Parameter(part.clone()) for part in parts]
    sets = dict.fromkeys(weights, Binary())
    optimizer = BinaryRelax(torch.optim.SGD(weights, lr=0.02), sets, Hard())
    expected = layer_alphas(run, problem.layer_sizes)
    with monitor(optimizer):
        for gradient, found in zip(run.gradients[:50], expected, strict=False):
            for weight, part in zip(weights, gradient.split(problem.layer_sizes), strict=True):
                weight.grad = part.clone()
            optimizer.step()
            records = measure(optimizer)
            assert [record.alpha for record in records] == pytest.approx(found.tolist(), rel=1e-9)


def test_stationarity_leaves_one_direction_for_each_layer():
    """∂χ_Q is the product of the layers': what is orthogonal to each layer's own line."""
    problem, run = layer_run(Binary())
    x = run.x[-1]
    first, second = x.split(problem.layer_sizes)
    basis = torch.zeros(problem.num_weights, 2, dtype=torch.float64)
    basis[: len(first), 0], basis[len(first) :, 1] = direction_of(first), direction_of(second)
    torch.testing.assert_close(layer_stationarity(problem, x), (problem.gradient(x) @ basis).norm())
