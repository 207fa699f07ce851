import pytest
import torch

from binaryrelax.quantizers import Ternary
from binaryrelax_lab.studies.theory.families import PhaseRetrievalFamily, QuadraticFamily
from binaryrelax_lab.studies.theory.lines_of_q import code_vectors

FAMILIES = [
    QuadraticFamily.random(3, 4, condition=10.0, seed=0),
    PhaseRetrievalFamily.random(3, 4, num_measurements=9, seed=0),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_gradient_is_that_of_the_value(family):
    points = torch.randn((2, 3, 5, 4), generator=torch.Generator().manual_seed(0)).double()
    x = points.clone().requires_grad_()
    family.value(x).sum().backward()
    torch.testing.assert_close(family.gradient(points), x.grad)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_float_minimisers_are_critical_with_value_zero(family):
    points = family.minimisers[:, None]
    assert family.value(points).abs().max() < 1e-25
    assert family.gradient(points).abs().max() < 1e-12


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_best_on_each_line_equals_a_search_over_scales(family):
    codes = code_vectors(Ternary(), 4)
    scales = torch.linspace(-4, 4, 4001, dtype=torch.float64)
    found = torch.stack([family.value(scale * codes) for scale in scales]).amin(0)
    best = family.best_on_lines(codes)
    assert (best <= found + 1e-12).all()
    torch.testing.assert_close(best, found, rtol=1e-3, atol=1e-4)


def test_largest_eigenvalue_is_one():
    family = QuadraticFamily.random(3, 5, condition=100.0, seed=1)
    values = torch.linalg.eigvalsh(family.matrices)
    torch.testing.assert_close(values[:, -1], torch.ones(3).double())
    torch.testing.assert_close(values[:, 0], torch.full((3,), 0.01).double())
