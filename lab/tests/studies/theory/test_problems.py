"""The test problems keep what they promise: gradients, L and σ."""

import pytest
import torch
from lab.tests.studies.theory.runs import network
from torch import Generator

from binaryrelax_lab.studies.theory.problems import (
    Quadratic,
    TwoLayerNetwork,
    figure_one,
    random_numbers,
)

PROBLEMS = {
    "quadratic": lambda: Quadratic.random(7, L=3.0, sigma=0.8, seed=2),
    "planted": lambda: Quadratic.planted(6, L=0.5, sigma=2.0),
    "figure 1": lambda: figure_one(0.3)[0],
    "network": lambda: network(8),
}


def points(problem, count, seed):
    """Points in the ball on which the network's constants hold."""
    reach = getattr(problem, "radius", 3.0)
    directions = random_numbers(count, problem.num_weights, seed=seed)
    radii = torch.linspace(0.1, 1, count, dtype=torch.float64)[:, None] * reach
    return directions / directions.norm(dim=1, keepdim=True) * radii


@pytest.fixture(params=PROBLEMS, ids=str)
def problem(request):
    return PROBLEMS[request.param]()


def test_gradient_is_the_derivative_of_the_value(problem):
    for x in points(problem, 5, seed=0):
        torch.testing.assert_close(problem.gradient(x), torch.func.grad(problem.value)(x))
        assert problem.value(x) >= 0


def test_gradient_is_lipschitz_with_the_stated_constant(problem):
    first, second = points(problem, 200, seed=1), points(problem, 200, seed=2)
    for x, z in zip(first, second.flip(0), strict=True):
        assert (problem.gradient(x) - problem.gradient(z)).norm() <= problem.L * (x - z).norm()


def test_descent_lemma(problem):
    """f(x) <= f(z) + <∇f(z), x - z> + L/2 ||x - z||^2 (lem:descent)."""
    for x, z in zip(points(problem, 200, seed=3), points(problem, 200, seed=4), strict=True):
        model = problem.value(z) + problem.gradient(z) @ (x - z)
        assert problem.value(x) <= model + problem.L / 2 * (x - z).square().sum() + 1e-12


def test_noise_is_unbiased_and_has_the_stated_size(problem):
    for x in points(problem, 4, seed=5):
        source = Generator().manual_seed(0)
        errors = torch.stack(
            [problem.noisy_gradient(x, source) - problem.gradient(x) for _ in range(3000)]
        )
        size = errors.square().sum(1).mean().sqrt().item()
        assert size <= 1.05 * problem.sigma
        assert errors.mean(0).norm() < 5 * size / 3000**0.5
        exact = problem.noise_at(x).item() if isinstance(problem, TwoLayerNetwork) else None
        assert size == pytest.approx(exact or problem.sigma, rel=0.05)


def test_full_batch_has_no_noise():
    problem, source = network(), Generator().manual_seed(0)
    x = random_numbers(problem.num_weights, seed=0)
    assert problem.sigma == 0
    assert torch.equal(problem.noisy_gradient(x, source), problem.gradient(x))


def test_measured_constant_of_the_network_is_below_the_proven_one():
    assert 0 < network().L < network().proven_L


def test_network_is_not_convex():
    x = random_numbers(network().num_weights, seed=0)
    assert torch.linalg.eigvalsh(torch.func.hessian(network().value)(x))[0] < 0


def test_chosen_eigenvalues_are_attained():
    eigenvalues = torch.linalg.eigvalsh(Quadratic.random(5, L=4.0, mu=0.5).matrix)
    assert eigenvalues[[0, -1]].tolist() == pytest.approx([0.5, 4.0])
