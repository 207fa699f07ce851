"""Exact quantizers against brute force over all assignments: eq. 3 to eq. 6, section 2.1."""

from functools import cache
from itertools import combinations_with_replacement, product

import pytest
import torch

from binaryrelax.quantizers import Levels, PerChannel, PowerOfTwo, Ternary, Uniform

from .adversarial import rows_of_every_kind
from .cases import EXACT_QUANTIZERS, level_values, with_granularity

NUM_CASES = 10_005  # per exact quantizer, an equal share of each adversarial kind
ROW_LENGTH = {1: 6, 2: 8, 3: 6, 4: 6, 8: 5, 16: 4, 32: 3, 64: 2, 128: 2}  # by number of levels
TOLERANCE = 1e-12  # of ||y||^2


@cache
def increasing_assignments(levels, num_weights):
    """All ways to give levels to weights in increasing order of magnitude: (ways, weights).

    No other assignment is better: exchanging two codes so that the larger weight gets the larger
    one keeps ||Q||^2 and does not lower <Q, |y|>. ``test_the_search...`` checks it.
    """
    ways = list(combinations_with_replacement(levels, num_weights))
    return torch.tensor([way for way in ways if way[-1] > 0], dtype=torch.float64)


def best_objective(a, levels):
    """The largest A^2/B of each row of magnitudes over all assignments."""
    ways = increasing_assignments(tuple(levels.tolist()), a.shape[1])
    ascending = a.sort(1).values
    best = [
        ((chunk @ ways.T).square() / ways.square().sum(1)).amax(1)
        for chunk in ascending.split(max(1, 4_000_000 // len(ways)))
    ]
    return torch.cat(best)


def objective_of(a, codes):
    """A^2/B of each row's codes, 0 for codes that are all 0."""
    return ((a * codes).sum(1).square() / codes.square().sum(1)).nan_to_num(0.0)


def shifted(x, exponent):
    """x * 2^exponent in float64, in two steps because 2^1000 * 2^1000 would overflow."""
    half = exponent // 2
    return torch.ldexp(torch.ldexp(x.double(), half), exponent - half)


def test_the_search_over_increasing_assignments_is_a_search_over_all():
    levels = torch.tensor([0.0, 0.5, 0.75, 4.0], dtype=torch.float64)
    a = rows_of_every_kind((150, 4), levels, torch.float64).abs()
    everything = torch.tensor(list(product(levels.tolist(), repeat=4))[1:], dtype=torch.float64)
    best = ((a @ everything.T).square() / everything.square().sum(1)).amax(1)
    torch.testing.assert_close(best_objective(a, levels), best, rtol=1e-14, atol=0)


@pytest.mark.parametrize("quantizer", EXACT_QUANTIZERS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_projection_is_the_nearest_point_of_q(quantizer, dtype):
    levels = level_values(quantizer, dtype)
    quantizer = with_granularity(quantizer, PerChannel())
    longest = ROW_LENGTH[len(levels)]
    for num_weights in range(1, longest + 1):
        num_rows = NUM_CASES if num_weights == longest else 300
        w = rows_of_every_kind((num_rows, num_weights), levels, dtype, seed=num_weights)
        scale, codes = quantizer.split(w)
        assert (codes * w.sign() >= 0)[scale[:, 0] > 0].all()
        unit = -torch.frexp(w.abs().amax(1, keepdim=True)).exponent
        a, codes = shifted(w.abs(), unit), codes.abs().double()
        energy = a.square().sum(1)
        missing = best_objective(a, levels) - objective_of(a, codes)
        assert int((missing > TOLERANCE * energy).sum()) == 0
        if dtype == torch.float64:
            found = shifted(w - quantizer.project(w), unit).square().sum(1)
            excess = found - (energy - best_objective(a, levels))
            assert int((excess > TOLERANCE * energy).sum()) == 0


@pytest.mark.parametrize("quantizer", EXACT_QUANTIZERS, ids=repr)
def test_scale_is_the_least_squares_scale_of_the_codes(quantizer):
    levels = level_values(quantizer, torch.float32)
    w = rows_of_every_kind((1500, 6), levels, torch.float32)
    w = w[(w.abs().amax(1) > 1e-25) | (w == 0).all(1)]  # denormal scales round coarsely
    scale, codes = with_granularity(quantizer, PerChannel()).split(w)
    codes = codes.abs().double()
    exact = (w.abs().double() * codes).sum(1) / codes.square().sum(1)
    torch.testing.assert_close(
        scale[:, 0].double(), exact.nan_to_num(0.0), rtol=3 * 2.0**-23, atol=0
    )


INTEGER_LEVELS = (
    Ternary(),
    Uniform(bits=3),
    Uniform(bits=4),
    PowerOfTwo(bits=3),
    Levels((0, 1, 3)),
    Levels((1, 2)),
    Levels((2, 3, 7)),
    Levels((2, 4, 6)),
)


def largest_best_scale(row, ways):
    """Numerator and denominator of the largest optimal scale, in whole numbers."""
    gain, cost = 0, 1
    for way in ways:
        a = sum(x * q for x, q in zip(row, way, strict=True))
        b = sum(q * q for q in way)
        mine, theirs = a * a * cost, gain * gain * b
        if mine > theirs or (mine == theirs and a * cost > gain * b):
            gain, cost = a, b
    return gain, cost


@pytest.mark.parametrize("quantizer", INTEGER_LEVELS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_tied_optimal_scales_the_larger_is_taken(quantizer, dtype):
    levels = tuple(int(q) for q in level_values(quantizer).tolist())
    generator = torch.Generator().manual_seed(0)
    for num_weights in (1, 2, 3, 4):
        rows = torch.randint(0, 7, (120, num_weights), generator=generator)
        ways = [w for w in combinations_with_replacement(levels, num_weights) if w[-1] > 0]
        exact = [largest_best_scale(sorted(row), ways) for row in rows.tolist()]
        expected = torch.tensor([gain / cost for gain, cost in exact], dtype=torch.float64)
        scale, _ = with_granularity(quantizer, PerChannel()).split(rows.to(dtype))
        torch.testing.assert_close(
            scale[:, 0].double(), expected, rtol=3 * torch.finfo(dtype).eps, atol=0
        )


@pytest.mark.parametrize("quantizer", INTEGER_LEVELS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("num_weights", [5, 1000, 9000, 100_000])
def test_many_equal_weights_take_the_lowest_level(quantizer, dtype, num_weights):
    lowest = min(q for q in quantizer.codebook if q > 0)
    scale, codes = quantizer.split(torch.full((num_weights,), 0.1, dtype=dtype))
    assert codes.unique().tolist() == [lowest]
    torch.testing.assert_close(scale * lowest, torch.tensor(0.1, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("num_weights", [30, 9000, 90_000])
def test_many_weights_on_even_levels_are_halved(dtype, num_weights):
    """0.1 * {1, 2, 3} lies in Uniform(4) as codes 1, 2, 3 or 2, 4, 6: the larger scale wins."""
    w = torch.tensor([0.1, 0.2, 0.1 + 0.2], dtype=dtype).repeat(num_weights // 3)
    scale, codes = Uniform(bits=4).split(w)
    assert codes.unique().tolist() == [1, 2, 3]
    torch.testing.assert_close(scale, torch.tensor(0.1, dtype=dtype))
