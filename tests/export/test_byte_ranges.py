"""Ranges for bytes against a slow search over the numbers themselves."""

import math

import pytest
import torch

from binaryrelax.export.byte_ranges import Histogram


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


NUMBERS = {
    "normal": random(40_000),
    "after ReLU": random(40_000).relu(),
    "heavy tails": random(40_000) ** 3,
    "heavy tails after ReLU": (random(40_000) ** 3).relu(),
    "a long tail on one side": random(40_000).exp() - 1,
    "a few outliers": torch.cat([random(40_000), torch.tensor([30.0, -25.0])]),
    "all negative": -random(40_000).abs(),
    "all far above zero": 5 + random(40_000).abs(),
    "evenly spread": torch.linspace(-1, 1, 40_001),
}


def squared_error(numbers, low, high):
    """Of bytes with 256 steps between the ends, one of which is zero."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255
    zero = round(-low / scale)
    rounded = (numbers.double() / scale).round().clamp(-zero, 255 - zero) * scale
    return float((rounded - numbers).square().sum())


def histogram_of(*batches):
    histogram = Histogram()
    for batch in batches:
        histogram.add(batch)
    return histogram


@pytest.mark.parametrize("name", NUMBERS)
def test_no_other_range_rounds_clearly_better(name):
    numbers = NUMBERS[name]
    low, high = float(numbers.min()), float(numbers.max())
    shares = [0.04 * k for k in range(1, 26)]
    lows = [low * s for s in shares] if low < 0 else [low]
    highs = [high * s for s in shares] if high > 0 else [high]
    least = min(squared_error(numbers, a, b) for a in lows for b in highs)
    found = squared_error(numbers, *histogram_of(numbers).byte_range())
    assert found <= 1.02 * least
    assert found <= 1.001 * squared_error(numbers, low, high)


def test_few_large_numbers_are_cut_off_and_evenly_spread_ones_are_not():
    many, few = random(400_000), torch.tensor([12.0, -15.0])
    low, high = histogram_of(many, few).byte_range()
    assert -10 < low < -3 and 3 < high < 8
    assert histogram_of(NUMBERS["evenly spread"]).byte_range() == (-1, 1)


def test_numbers_that_cannot_be_negative_get_all_steps_above_zero():
    assert histogram_of(NUMBERS["after ReLU"]).byte_range()[0] == 0


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_count_alike_in_any_batches_and_any_order(name):
    numbers = NUMBERS[name]
    expected = histogram_of(numbers).byte_range()
    grown = numbers[numbers.abs().argsort()]
    for order in (numbers, grown, grown.flip(0)):
        assert histogram_of(*order.split(997)).byte_range() == expected


@pytest.mark.parametrize("scale", [2.0**-80, 2.0**-20, 2.0**100])
def test_the_range_grows_with_the_numbers(scale):
    numbers = NUMBERS["heavy tails"]
    low, high = histogram_of(numbers).byte_range()
    found = histogram_of(torch.zeros(5), 1e-9 * scale * numbers, scale * numbers).byte_range()
    assert found == pytest.approx((scale * low, scale * high), rel=0.1)


@pytest.mark.parametrize("number", [0.0, 3.0, -3.0, 1e-44, 3e38])
def test_constants_have_a_range(number):
    low, high = histogram_of(torch.full((7,), number)).byte_range()
    assert math.isfinite(low) and math.isfinite(high) and low <= high
    assert number == pytest.approx(low if number < 0 else high, rel=0.021)
