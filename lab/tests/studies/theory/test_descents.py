"""Many runs at once are the runs of `iterations`, one by one."""

import pytest
import torch

from binaryrelax import GeometricGrowth
from binaryrelax.quantizers import Binary, PerChannel, Ternary
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.iterations import (
    BINARY_CONNECT,
    PROJECTED_GRADIENT,
    Descent,
    Method,
    binary_connect,
    binary_relax,
    cosine_rates,
    projected_gradient,
    stepped_rates,
)
from binaryrelax_lab.studies.theory.problems import Quadratic

FAMILY = QuadraticFamily.random(2, 6, condition=10.0, seed=0)
RATES = cosine_rates(0.5, 40)
GROWTH = GeometricGrowth(1.0, 1.1, 2, 30)


def iterates(method, problem, quantizer, start):
    """x of one run, by the plain iterations."""
    if method.from_projection:
        return projected_gradient(problem, quantizer, start, RATES).x
    if method is BINARY_CONNECT:
        return binary_connect(problem, quantizer, start, RATES).x
    return binary_relax(problem, quantizer, start, RATES, schedule=method.schedule).x


@pytest.mark.parametrize("kind", [Binary, Ternary])
def test_rows_are_single_runs(kind):
    methods = [PROJECTED_GRADIENT, BINARY_CONNECT, Method("BinaryRelax", GROWTH)]
    starts = torch.randn((2, 3, 6), generator=torch.Generator().manual_seed(1)).double()
    descent = Descent(FAMILY.gradient, kind(granularity=PerChannel()), RATES)
    xs = torch.stack([x for x, _ in descent.run(methods, starts)])
    for number, method in enumerate(methods):
        for member in range(2):
            problem = Quadratic(FAMILY.matrices[member], FAMILY.minimisers[member])
            for start in range(3):
                single = iterates(method, problem, kind(), starts[member, start])
                torch.testing.assert_close(xs[:, number, member, start], single)


def test_noise_is_the_same_for_all_methods_and_has_the_given_size():
    size = 2.0
    starts = torch.zeros((2, 4000, 6)).double()
    flat = Descent(torch.zeros_like, Binary(granularity=PerChannel()), [1.0], noise=size)
    _, (_, last) = flat.run([BINARY_CONNECT, BINARY_CONNECT], starts)
    assert torch.equal(last[0], last[1])
    drawn = flat._noise(starts, torch.Generator().manual_seed(0))
    assert drawn.square().sum(-1).mean().sqrt().item() == pytest.approx(size, rel=0.02)


def test_rates_fall_as_in_the_paper():
    rates = stepped_rates(0.1, 300)
    assert rates[119] == 0.1 and rates[120] == pytest.approx(0.01)
    assert rates[219] == pytest.approx(0.01) and rates[220] == pytest.approx(0.001)
    assert cosine_rates(0.1, 10)[0] == 0.1 and 0 < cosine_rates(0.1, 10)[-1] < 0.003
