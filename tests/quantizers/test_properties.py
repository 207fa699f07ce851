"""Properties that every quantizer has, at every granularity and dtype."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from binaryrelax.quantizers import Binary, PerLayer

from .cases import (
    ALL_QUANTIZERS,
    BITS_PROMISED_IDEMPOTENT,
    DTYPES,
    EXACT_QUANTIZERS,
    GRANULARITIES,
    at_every_granularity,
    is_supported,
    level_values,
    random_weights,
    same_bits,
    supported_dtypes,
    ulps_apart,
    weights,
    with_granularity,
)

every_quantizer = pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)
every_exact_quantizer = pytest.mark.parametrize("quantizer", EXACT_QUANTIZERS, ids=repr)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def variants(quantizer, w):
    """The quantizer at every granularity, with w in a dtype that holds its codes."""
    w = w if is_supported(quantizer, w.dtype) else w.float()
    return [(variant, w) for variant in at_every_granularity(quantizer)]


def assert_idempotent(quantizer, w):
    """To the bit up to 4 bits and to one ulp beyond.

    In half precision, rounding scale * codes at 5 and more bits can bring a point of Q nearer to
    other codes. The projection is then still within the rounding error, in norm.
    """
    once = quantizer.project(w)
    twice = quantizer.project(once)
    if quantizer.bits <= BITS_PROMISED_IDEMPOTENT:
        assert same_bits(twice, once), quantizer
    elif w.dtype in (torch.float32, torch.float64):
        assert ulps_apart(twice, once) <= 1, quantizer
    else:
        change = (twice.double() - once.double()).norm()
        assert change <= torch.finfo(w.dtype).eps * once.double().norm(), quantizer


@every_quantizer
@every_dtype
@settings(max_examples=6)  # at each of 3 granularities and 4 dtypes
@given(data=st.data())
def test_project_is_idempotent(quantizer, dtype, data):
    for variant, w in variants(quantizer, data.draw(weights(dtype))):
        assert_idempotent(variant, w)


@every_quantizer
def test_project_is_idempotent_on_random_weights(quantizer):
    for dtype in supported_dtypes(quantizer):
        for variant in at_every_granularity(quantizer):
            for shape in [(8, 34), (64, 6)]:
                assert_idempotent(variant, random_weights(*shape).mul(0.05).to(dtype))


@every_quantizer
@every_dtype
@settings(max_examples=6)  # at each of 3 granularities and 4 dtypes
@given(data=st.data())
def test_project_is_the_product_of_a_scale_and_codes_from_the_codebook(quantizer, dtype, data):
    for variant, w in variants(quantizer, data.draw(weights(dtype))):
        scale, codes = variant.split(w)
        assert torch.isin(codes.abs().double(), level_values(variant, w.dtype)).all()
        assert not codes[codes == 0].signbit().any()
        assert (scale >= 0).all()
        assert same_bits(variant.project(w), scale * codes)


@every_quantizer
@given(data=st.data(), exponent=st.integers(-3, 3))
def test_project_commutes_with_powers_of_two(quantizer, data, exponent):
    for variant, w in variants(quantizer, data.draw(weights())):
        expected = variant.project(w) * 2.0**exponent
        assert same_bits(variant.project(w * 2.0**exponent), expected)


@every_quantizer
@given(data=st.data())
def test_signs_of_codes_follow_the_weights(quantizer, data):
    for variant, w in variants(quantizer, data.draw(weights())):
        scale, codes = variant.split(w)
        flipped_scale, flipped_codes = variant.split(-w)
        assert same_bits(flipped_scale, scale)
        assert torch.equal(flipped_codes[w != 0], -codes[w != 0])
        assert (codes * w >= 0).all()
        assert (codes[w == 0] >= 0).all()


@every_quantizer
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_project_to_positive_zeros_with_scale_zero(quantizer, zero):
    for dtype in supported_dtypes(quantizer):
        for variant in at_every_granularity(quantizer):
            w = torch.full((3, 4), zero, dtype=dtype)
            scale, _ = variant.split(w)
            assert same_bits(scale, torch.zeros_like(scale))
            assert same_bits(variant.project(w), torch.zeros(3, 4, dtype=dtype))


@every_quantizer
def test_zero_rows_among_others_stay_zero(quantizer):
    w = random_weights(4, 6)
    w[1] = 0
    for variant in at_every_granularity(quantizer):
        projected = variant.project(w)
        assert projected.isfinite().all()
        if variant.granularity != PerLayer():
            assert same_bits(projected[1], torch.zeros(6))


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=repr)
@every_dtype
def test_binary_sends_both_zeros_to_plus_one(granularity, dtype):
    w = torch.tensor([[0.0, -0.0, -3.0, 2.0]], dtype=dtype)
    _, codes = Binary(granularity=granularity).split(w)
    assert codes.tolist() == [[1, 1, -1, 1]]


def assert_order_does_not_matter(quantizer, w, order):
    scale, codes = quantizer.split(w)
    permuted_scale, permuted_codes = quantizer.split(w[order])
    assert same_bits(permuted_scale, scale)
    assert same_bits(permuted_codes, codes[order])


@every_exact_quantizer
@given(w=weights(torch.float32), data=st.data())
def test_order_of_the_weights_does_not_matter(quantizer, w, data):
    order = data.draw(st.permutations(range(w.numel())))
    assert_order_does_not_matter(quantizer, w.flatten(), order)


@every_exact_quantizer
def test_order_of_many_weights_does_not_matter(quantizer):
    order = torch.randperm(2000, generator=torch.Generator().manual_seed(1))
    for dtype in set(supported_dtypes(quantizer)) - {torch.float64}:  # float64 sums of it round
        assert_order_does_not_matter(quantizer, random_weights(2000, dtype=dtype), order)


@every_quantizer
def test_each_group_is_projected_on_its_own(quantizer):
    for dtype in supported_dtypes(quantizer):
        w = random_weights(3, 4, dtype=dtype)
        w[1] *= 64
        w[2] /= 64
        for variant in at_every_granularity(quantizer):
            rows = variant.granularity.rows(w)
            alone = [with_granularity(quantizer, PerLayer()).project(row) for row in rows]
            assert same_bits(variant.project(w), torch.stack(alone).reshape(w.shape))
