"""eq. 11: the proximal map, its two ends, and that it minimises what it should."""

import math

import torch
from hypothesis import given, strategies as st

from binaryrelax import Binary, GeometricGrowth, PerChannel, Ternary, relax

vectors = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=6).map(torch.tensor)


@given(vectors)
def test_ends_are_exact_eq_11(y):
    projected = Ternary().project(y)
    assert torch.equal(relax(y, projected, 0.0), y)
    assert torch.equal(relax(y, projected, math.inf), projected)


@given(vectors, st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_minimises_half_square_plus_penalty_eq_10(y, strength, seed):
    """No other point does better; dist(z, Q) by projecting z itself."""
    y = y.double()
    quantizer = Ternary(granularity=PerChannel())

    def objective(z):
        to_q = (z - quantizer.project(z)).square().sum(1)
        return (z - y).square().sum(1) / 2 + strength / 2 * to_q

    x = relax(y, Ternary().project(y), strength)
    noise = torch.randn(200, len(y), generator=torch.Generator().manual_seed(seed)).double()
    widths = torch.logspace(-6, 1, 200).double()[:, None]
    best = objective(x[None])
    assert bool((objective(x + noise * widths) >= best - 1e-9 * (1 + best)).all())


def test_half_precision_is_mixed_in_float32():
    y = torch.randn(1000).bfloat16()
    projected = Binary().project(y)
    exact = relax(y.double(), projected.double(), 150.0)
    assert torch.equal(relax(y, projected, 150.0), exact.bfloat16())


def test_double_precision_is_mixed_in_float64():
    y = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    projected = Binary().project(y)
    expected = (0.1 * projected + y) / 1.1  # a float32 mixing weight would be off by 1e-9
    torch.testing.assert_close(relax(y, projected, 0.1), expected, rtol=1e-15, atol=0)


def test_mixing_weight_of_the_papers_schedule():
    schedule = GeometricGrowth(1.0, 1.02, 391, 240 * 391)
    y, projected = torch.tensor([1.0]).double(), torch.tensor([3.0]).double()
    strength = schedule(239 * 391)
    expected = (strength * 3 + 1) / (strength + 1)
    assert math.isclose(relax(y, projected, strength).item(), expected, rel_tol=1e-7)
