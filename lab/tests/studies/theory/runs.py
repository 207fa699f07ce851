"""The runs behind the tests: full-batch and noisy, all problems, all of them change line."""

from functools import cache

from binaryrelax import Binary, Ternary
from binaryrelax_lab.studies.theory.iterations import binary_connect, constant, harmonic
from binaryrelax_lab.studies.theory.problems import (
    Quadratic,
    TwoLayerNetwork,
    figure_one,
    random_numbers,
)


@cache
def network(batch_size=None):
    return TwoLayerNetwork.random(batch_size=batch_size, radius=5.0)


def on_quadratic(quantizer, sigma):
    problem = Quadratic.random(6, L=2.0, sigma=sigma, seed=3)
    start = random_numbers(6, seed=5)
    return lambda: (quantizer, binary_connect(problem, quantizer, start, harmonic(0.1, 300)))


def on_network(quantizer, batch_size):
    def run():
        problem = network(batch_size)
        start = random_numbers(problem.num_weights, seed=1) / 2
        found = binary_connect(problem, quantizer, start, constant(0.02, 300))
        assert found.x.norm(dim=1).max() < problem.radius  # where its L and σ hold
        return quantizer, found

    return run


def on_figure_one(sigma):
    problem, quantizer = figure_one(sigma)
    start = random_numbers(2, seed=2)
    return lambda: (quantizer, binary_connect(problem, quantizer, start, constant(0.1, 300)))


def all_runs():
    """Name -> a function that makes the set and the run."""
    return {
        "quadratic, binary": on_quadratic(Binary(), 0.0),
        "quadratic, binary, noisy": on_quadratic(Binary(), 1.0),
        "quadratic, ternary, noisy": on_quadratic(Ternary(), 1.0),
        "quadratic, ternary": on_quadratic(Ternary(), 0.0),
        "network, binary": on_network(Binary(), None),
        "network, ternary, noisy": on_network(Ternary(), 8),
        "figure 1": on_figure_one(0.0),
        "figure 1, noisy": on_figure_one(0.5),
    }
