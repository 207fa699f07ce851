"""TernaryThreshold (eq. 7), OneStepLloyd (section 2.1) and TernaryAbsMean (BitNet b1.58) against
their formulas written out."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, strategies as st

from binaryrelax.quantizers import (
    ExactQuantizer,
    OneStepLloyd,
    PerGroup,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
    distance,
)

from .cases import (
    DTYPES,
    HEURISTIC_QUANTIZERS,
    at_every_granularity,
    random_weights,
    same_bits,
    weights,
)


def threshold_written_out(y, ratio):
    """eq. 7 in plain Python: delta = ratio * ||y||_1 / n; the mean of what is at least delta."""
    delta = ratio * sum(abs(x) for x in y) / len(y)
    kept = [x for x in y if abs(x) >= delta and x != 0]
    scale = sum(abs(x) for x in kept) / max(len(kept), 1)
    return scale, [(x > 0) - (x < 0) if x in kept else 0 for x in y]


def one_lloyd_step_written_out(y, bits):
    """Section 2.1 in plain Python: nearest levels at s_0 = max|y| / q_m, then least squares."""
    top = 2 ** (bits - 1) - 1
    start = max(abs(x) for x in y) / top
    if start == 0:
        return 0.0, [0.0] * len(y)
    codes = [min(range(top + 1), key=lambda q: (abs(abs(x) / start - q), -q)) for x in y]
    gain = sum(abs(x) * q for x, q in zip(y, codes, strict=True))
    scale = gain / sum(q * q for q in codes)
    return scale, [q if x > 0 else -q for x, q in zip(y, codes, strict=True)]


def assert_agree(found, expected, w):
    scale, codes = found
    expected_scale, expected_codes = expected
    torch.testing.assert_close(
        scale, torch.tensor(expected_scale, dtype=w.dtype), rtol=1e-13, atol=0
    )
    assert codes.flatten().tolist() == expected_codes


def is_far_from_a_tie(w, edges):
    return bool(((w.abs().flatten()[:, None] - edges).abs() > 1e-12 * w.abs().max()).all())


@pytest.mark.parametrize("ratio", [0.7, 0.3, 1.0])
@given(w=weights(torch.float64))
def test_ternary_threshold_is_eq_7(ratio, w):
    y = w.flatten().tolist()
    if is_far_from_a_tie(w, ratio * w.abs().mean()):
        assert_agree(TernaryThreshold(ratio=ratio).split(w), threshold_written_out(y, ratio), w)


def test_ternary_threshold_keeps_weights_on_the_threshold():
    w = torch.tensor([1.0, 2.0, 1.0, 4.0])  # mean 2
    assert TernaryThreshold(ratio=1.0).split(w)[1].tolist() == [0, 1, 0, 1]
    assert TernaryThreshold(ratio=0.5).split(w)[1].tolist() == [1, 1, 1, 1]


def test_ternary_threshold_decides_as_float64_would():
    """ratio * mean lies between two float32 numbers: rounding it must not drop or keep one."""
    for seed in range(50):
        w = random_weights(64, seed=seed)
        for x in w.abs().sort().values[5:60].tolist():
            ratio = x / w.abs().double().mean().item()
            if ratio <= 1:
                delta = ratio * (w.abs().double().sum() / 64)
                codes = TernaryThreshold(ratio=ratio).split(w)[1]
                assert torch.equal(codes != 0, w.abs().double() >= delta)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@given(w=weights(torch.float64))
def test_one_step_lloyd_is_section_2_1(bits, w):
    y = w.flatten().tolist()
    top = 2 ** (bits - 1) - 1
    edges = (torch.arange(top, dtype=torch.float64) + 0.5) * w.abs().max() / top
    if is_far_from_a_tie(w, edges) or not w.any():
        assert_agree(OneStepLloyd(bits=bits).split(w), one_lloyd_step_written_out(y, bits), w)


def absmean_written_out(y):
    """RoundClip(y / mean|y|, -1, 1) in fractions; a point of Q is its own projection."""
    sizes = [abs(Fraction(x)) for x in y]
    kinds = {size for size in sizes if size}
    scale = kinds.pop() if len(kinds) == 1 else sum(sizes) / len(y)
    nearest = [round(Fraction(x) / scale) if scale else 0 for x in y]  # halves go to even
    return scale, [max(-1, min(1, code)) for code in nearest]


def assert_absmean(w):
    for quantizer in at_every_granularity(TernaryAbsMean()):
        scale, codes = quantizer.split(w)
        scales = scale.expand_as(codes).double()
        rows = [quantizer.granularity.rows(x) for x in (w.double(), codes, scales)]
        for row, found, of_row in zip(*rows, strict=True):
            exact, expected = absmean_written_out(row.tolist())
            expected_scale = torch.tensor(float(exact), dtype=torch.float64).to(w.dtype)
            assert of_row.unique().tolist() == [expected_scale.item()]
            assert found.tolist() == expected


half_integers = st.lists(st.integers(-6, 6).map(lambda n: n / 2), min_size=8, max_size=8)


@given(values=half_integers)
def test_absmean_is_that_of_bitnet_ties_too(values):
    """Their sums are exact in any dtype: codes and scales have the bits of the fractions."""
    for dtype in DTYPES:
        assert_absmean(torch.tensor(values, dtype=dtype).reshape(2, 4))


@given(w=weights(torch.float32))
def test_absmean_of_any_weights_is_that_of_bitnet(w):
    assert_absmean(w)


def test_absmean_has_the_codes_of_bitnets_own_line():
    """As its training tips write it, in float32: w.abs().mean(), round(), clamp_(-1, 1)."""
    w = random_weights(64, 96) * 0.02
    scale, codes = TernaryAbsMean().split(w)
    assert torch.equal(codes, (w / scale).round().clamp_(-1, 1))
    torch.testing.assert_close(scale, w.abs().mean())


def test_absmean_rounds_halves_to_even():
    w = torch.tensor([1.0, -1.0, 3.0, 3.0])  # mean 2: halves at 1 and 3
    assert TernaryAbsMean().split(w)[1].tolist() == [0, 0, 1, 1]
    above = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    w = torch.tensor([1.0, above, 3.0, 3 - (above - 1)])
    assert TernaryAbsMean().split(w)[1].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_points_of_q_are_their_own_absmean(dtype):
    """Whatever share is zero; the formula alone would shrink the scale by that share."""
    g = torch.Generator().manual_seed(0)
    codes = torch.randint(-1, 2, (40, 12), generator=g).to(dtype)
    codes[3:, 4:] = 0
    for quantizer in at_every_granularity(TernaryAbsMean()):
        rows = quantizer.granularity.rows(codes)
        sizes = random_weights(len(rows), 1, seed=1).abs().to(dtype)
        w = (rows * sizes).reshape(codes.shape)
        assert same_bits(quantizer.project(w), w + 0.0)
        assert distance(w, quantizer) == 0


def test_one_weight_off_q_makes_it_no_point_of_q():
    w = TernaryAbsMean().project(random_weights(8, 64))
    w[0, 0] += torch.finfo(w.dtype).eps
    assert distance(w, TernaryAbsMean()) > 0.1 * w.norm()
    assert distance(w, Ternary()) < 1e-6 * w.norm()  # the nearest point is another one
    own = TernaryAbsMean(granularity=PerGroup(64))
    assert torch.equal(own.project(w)[1:], w[1:]) and not torch.equal(own.project(w)[0], w[0])


def test_absmean_of_any_order_and_memory_format():
    w = random_weights(16, 6, 3, 3)
    strided = w.contiguous(memory_format=torch.channels_last)
    order = torch.randperm(w.numel(), generator=torch.Generator().manual_seed(1))
    scale, codes = TernaryAbsMean().split(w)
    permuted_scale, permuted_codes = TernaryAbsMean().split(w.flatten()[order])
    assert same_bits(permuted_scale, scale)
    assert same_bits(permuted_codes, codes.flatten()[order])
    for quantizer in at_every_granularity(TernaryAbsMean()):
        if quantizer.granularity != PerGroup(2):
            found = quantizer.project(strided)
            assert found.stride() == strided.stride()
            assert torch.equal(found, quantizer.project(w))


EXCESS = [  # bounds on the squared distance over the optimum's, as a ratio, on normal weights
    (TernaryThreshold(), Ternary(), 1.01),
    (TernaryAbsMean(), Ternary(), 1.6),
    (OneStepLloyd(bits=2), Ternary(), 5.0),
    (OneStepLloyd(bits=3), Uniform(bits=3), 4.0),
    (OneStepLloyd(bits=4), Uniform(bits=4), 3.0),
    (OneStepLloyd(bits=8), Uniform(bits=8), 1.2),
]


@pytest.mark.parametrize(("heuristic", "exact", "bound"), EXCESS, ids=repr)
def test_excess_distance_on_normal_weights_is_bounded(heuristic, exact, bound):
    for seed in range(3):
        w = random_weights(20_000, seed=seed)
        ratio = (distance(w, heuristic) / distance(w, exact)).square()
        assert 1 - 1e-6 <= ratio <= bound


@pytest.mark.parametrize("heuristic", HEURISTIC_QUANTIZERS, ids=repr)
@given(w=weights(torch.float64))
def test_heuristics_are_never_nearer_than_the_exact_projection(heuristic, w):
    exact = Uniform(bits=heuristic.bits)
    assert distance(w, heuristic) >= distance(w, exact) * (1 - 1e-12) - 1e-12 * w.norm()


@pytest.mark.parametrize("heuristic", HEURISTIC_QUANTIZERS, ids=repr)
def test_heuristics_call_themselves_so(heuristic):
    assert not isinstance(heuristic, ExactQuantizer)
    assert "euristic" in type(heuristic).__doc__
