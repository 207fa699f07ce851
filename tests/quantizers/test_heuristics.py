"""TernaryThreshold (eq. 7) and OneStepLloyd (section 2.1) against their formulas written out."""

import pytest
import torch
from hypothesis import given

from binaryrelax.quantizers import (
    ExactQuantizer,
    OneStepLloyd,
    Ternary,
    TernaryThreshold,
    Uniform,
    distance,
)

from .cases import HEURISTIC_QUANTIZERS, random_weights, weights


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


EXCESS = [  # bounds on the squared distance over the optimum's, as a ratio, on normal weights
    (TernaryThreshold(), Ternary(), 1.01),
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
