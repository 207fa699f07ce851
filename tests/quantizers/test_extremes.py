"""The largest and smallest numbers of a dtype: finite weights have a finite projection."""

import math

import pytest
import torch

from binaryrelax.quantizers import Levels, PerChannel, PowerOfTwo, Ternary, Uniform

from .cases import ALL_QUANTIZERS, random_weights, same_bits, supported_dtypes

every_quantizer = pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)


@every_quantizer
def test_projections_of_the_largest_weights_are_finite(quantizer):
    for dtype in supported_dtypes(quantizer):
        largest = torch.finfo(dtype).max
        for pattern in ([1, 1, -1], [1, 1, 0.35, 0.35, 0.67], [1, 0.3, 0], [1, 0.9, -0.8, 0.6]):
            w = torch.tensor(pattern, dtype=torch.float64).mul(largest).to(dtype)
            scale, codes = quantizer.split(w)
            assert scale.isfinite().all(), (quantizer, dtype, pattern)
            assert (scale * codes).isfinite().all(), (quantizer, dtype, pattern)
            projected = quantizer.project(w)
            assert same_bits(projected, scale * codes)


@every_quantizer
def test_projections_of_the_smallest_weights_are_finite_and_idempotent(quantizer):
    for dtype in supported_dtypes(quantizer):
        smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        for pattern in ([1, 1, -1], [1, 2, 3, 7, -100], [0, -1], [5, 0, 0, -1]):
            w = torch.tensor(pattern, dtype=dtype) * smallest
            once = quantizer.project(w)
            assert once.isfinite().all(), (quantizer, dtype, pattern)
            assert not once[once == 0].signbit().any(), (quantizer, dtype, pattern)
            if all(code.is_integer() for code in quantizer.codebook):  # 0.3 * denormal rounds
                assert same_bits(quantizer.project(once), once), (quantizer, dtype, pattern)


@pytest.mark.parametrize("magnitude", [1e-300, 1e-200, 1e-100, 1e100, 1e150, 1e200, 1e300])
@every_quantizer
def test_float64_weights_of_any_magnitude_project_alike(quantizer, magnitude):
    exponent = round(math.log2(magnitude))
    w = random_weights(40, dtype=torch.float64)
    codes = quantizer.split(w)[1]
    assert torch.equal(quantizer.split(torch.ldexp(w, torch.tensor(exponent)))[1], codes)


@pytest.mark.parametrize("exponent", [-1000, -600, -300, 300, 600, 1000])
@pytest.mark.parametrize("quantizer", [Ternary(), Uniform(bits=3), PowerOfTwo(bits=4)], ids=repr)
def test_many_float64_weights_of_any_magnitude_project_alike(quantizer, exponent):
    w = random_weights(3000, dtype=torch.float64)  # enough for the bracketed sweep
    scaled = quantizer.project(torch.ldexp(w, torch.tensor(exponent)))
    assert same_bits(torch.ldexp(scaled, torch.tensor(-exponent)), quantizer.project(w))


@pytest.mark.parametrize("unit", [1e-30, 1e-10, 1e10, 1e29])
def test_the_unit_of_the_levels_does_not_matter(unit):
    w = random_weights(3, 8, dtype=torch.float64)
    plain = Levels((0, 1, 3), granularity=PerChannel()).project(w)
    scaled = Levels((0, unit, 3 * unit), granularity=PerChannel()).project(w)
    torch.testing.assert_close(scaled, plain, rtol=1e-14, atol=0)


def test_points_of_q_with_a_wide_range_are_kept():
    """0.7 * (1, 2^21, 2) lies in PowerOfTwo(6): calling its nearest states ties would lose 0.7."""
    w = torch.tensor([1.0, 2.0**21, -2.0], dtype=torch.float64) * 0.7
    assert same_bits(PowerOfTwo(bits=6).project(w), w)
