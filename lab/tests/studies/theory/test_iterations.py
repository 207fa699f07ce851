"""The plain iterations and the library's optimizers take the same steps, to the bit."""

import pytest
import torch
from lab.tests.studies.theory.runs import network
from torch import Generator

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    Levels,
    LinearMix,
    ProjectedGradient,
    Ternary,
)
from binaryrelax_lab.studies.theory.iterations import (
    LayerWise,
    binary_connect,
    binary_relax,
    harmonic,
    projected_gradient,
)
from binaryrelax_lab.studies.theory.problems import Quadratic, random_numbers

SIZES = harmonic(0.05, 120)
PROBLEMS = {
    "quadratic": lambda: Quadratic.random(9, L=3.0, sigma=0.5),
    "network": lambda: network(8),
}
SCHEDULES = (
    Hard(),
    LinearMix(10, 90),
    GeometricGrowth.reaching(150.0, phase_one_steps=90, every=4),
)


def assert_same_bits(run, optimizer, weights, problem, seed):
    """The optimizer over the parts of one vector follows the run."""
    source = Generator().manual_seed(seed)
    sizes = [len(weight) for weight in weights]
    for k, step_size in enumerate(run.step_sizes):
        x = torch.cat([weight.detach() for weight in weights])
        assert torch.equal(x, run.x[k])
        gradient = problem.noisy_gradient(x, source)
        assert torch.equal(gradient, run.gradients[k])
        for weight, part in zip(weights, gradient.split(sizes), strict=True):
            weight.grad = part.clone()
        optimizer.param_groups[0]["lr"] = step_size
        optimizer.step()
        y = torch.cat([optimizer.float_weights[weight] for weight in weights])
        assert torch.equal(y, run.y[k + 1])


def parameters(start, sizes):
    return [torch.nn.Parameter(part.clone()) for part in start.split(sizes)]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), Levels((0, 1, 3))], ids=repr)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: type(s).__name__)
def test_relaxed_run_has_the_bits_of_the_optimizer(name, quantizer, schedule):
    """Algorithm 1: eqs. 10, 11 and 12."""
    problem = PROBLEMS[name]()
    start = random_numbers(problem.num_weights, seed=9)
    run = binary_relax(problem, quantizer, start, SIZES, schedule=schedule, seed=4)
    (weight,) = weights = parameters(start, problem.num_weights)
    optimizer = BinaryRelax(torch.optim.SGD(weights, lr=1.0), {weight: quantizer}, schedule)
    assert_same_bits(run, optimizer, weights, problem, seed=4)


def test_binary_connect_is_the_run_with_infinite_strength():
    problem = PROBLEMS["quadratic"]()
    start = random_numbers(9, seed=9)
    run = binary_connect(problem, Ternary(), start, SIZES)
    again = binary_relax(problem, Ternary(), start, SIZES, schedule=Hard())
    assert torch.equal(run.x, again.x)
    assert all(torch.equal(x, Ternary().project(y)) for x, y in zip(run.x, run.y, strict=True))


def test_projected_gradient_has_the_bits_of_the_optimizer():
    """eq. 2"""
    problem = PROBLEMS["quadratic"]()
    start = random_numbers(9, seed=9)
    run = projected_gradient(problem, Ternary(), start, SIZES, seed=4)
    (weight,) = weights = parameters(start, 9)
    optimizer = ProjectedGradient(torch.optim.SGD(weights, lr=1.0), {weight: Ternary()})
    assert_same_bits(run, optimizer, weights, problem, seed=4)


def test_run_with_one_scale_per_layer_has_the_bits_of_the_optimizer():
    problem = network(8)
    start = random_numbers(problem.num_weights, seed=9)
    q = LayerWise(Binary(), problem.layer_sizes)
    run = binary_connect(problem, q, start, SIZES, seed=4)
    weights = parameters(start, problem.layer_sizes)
    sets = dict.fromkeys(weights, Binary())
    optimizer = BinaryRelax(torch.optim.SGD(weights, lr=1.0), sets, Hard())
    assert_same_bits(run, optimizer, weights, problem, seed=4)
