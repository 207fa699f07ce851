"""The histogram search for the ternary cut (eq. 6) against rational arithmetic and sorting."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from binaryrelax.quantizers import Ternary
from binaryrelax.quantizers.radix import exact_ternary_cut

from .adversarial import KINDS, magnitudes_of_kind, rows_of_every_kind
from .cases import same_bits

TERNARY_LEVELS = torch.tensor([0.0, 1.0], dtype=torch.float64)
every_kind = pytest.mark.parametrize("kind", KINDS)


def cut_in_rationals(a):
    """How many weights are kept, and their mean; of tied cuts the one with the larger mean."""
    total, best_total, best_count = Fraction(0), Fraction(0), 0
    for count, x in enumerate(sorted(map(Fraction, a.tolist()), reverse=True), start=1):
        total += x
        if total**2 * max(best_count, 1) > best_total**2 * count:
            best_total, best_count = total, count
    return best_count, float(best_total / max(best_count, 1))


def cut_found(a):
    """The same from the histogram search."""
    cut, scale = exact_ternary_cut(a)
    return int((a >= cut).sum()), scale


def float32_of_kind(kind, num_weights, seed=0):
    return magnitudes_of_kind(kind, (1, num_weights), TERNARY_LEVELS, seed)[0].float()


@pytest.mark.parametrize("num_weights", [1, 2, 3, 5, 8, 13, 30])
def test_small_cuts_equal_rational_arithmetic(num_weights):
    rows = rows_of_every_kind((450, num_weights), TERNARY_LEVELS, torch.float32, seed=num_weights)
    for row in rows.abs():
        assert cut_found(row) == cut_in_rationals(row)


@every_kind
@pytest.mark.parametrize("num_weights", [300, 4000])
def test_medium_cuts_equal_rational_arithmetic(kind, num_weights):
    a = float32_of_kind(kind, num_weights)
    assert cut_found(a) == cut_in_rationals(a)


def test_tied_cuts_keep_fewer_weights():
    assert cut_found(torch.tensor([3.0, 1.0, 1.0, 1.0])) == (1, 3.0)  # 3^2/1 = 6^2/4
    assert cut_found(torch.tensor([1.0, 1.0, 1.0, 1.0, 3.0])) == (5, 7 / 5)  # 9 < 7^2/5
    assert cut_found(torch.tensor([1.0, 0.0, 3.0, 1.0, 1.0]) * 2.0**-149) == (1, 3 * 2.0**-149)


def best_value_by_sorting(a):
    """max A^2/B and where, from a sort and sums of 64-bit mantissas."""
    descending = np.sort(a.numpy())[::-1].astype(np.longdouble)
    sums = descending.cumsum()
    return (sums**2 / np.arange(1, len(sums) + 1)).max()


def value_of_cut(a, cut):
    kept = a[a >= cut].numpy().astype(np.longdouble)
    return kept.sum() ** 2 / len(kept)


@every_kind
def test_a_million_weights_have_the_same_objective_as_when_sorted(kind):
    a = float32_of_kind(kind, 1_000_000)
    cut, scale = exact_ternary_cut(a)
    best = best_value_by_sorting(a)
    assert abs(value_of_cut(a, cut) - best) <= 1e-12 * best
    kept = a[a >= cut].double()
    assert scale == pytest.approx(float(kept.mean()), rel=1e-12)


@every_kind
def test_order_of_the_weights_does_not_matter(kind):
    a = float32_of_kind(kind, 20_000)
    order = torch.randperm(len(a), generator=torch.Generator().manual_seed(1))
    assert exact_ternary_cut(a[order]) == exact_ternary_cut(a)


@every_kind
def test_ternary_gives_the_same_bits_whichever_way_it_searches(kind, monkeypatch):
    a = float32_of_kind(kind, 70_000)
    w = a * (torch.randint(0, 2, a.shape, generator=torch.Generator().manual_seed(2)) * 2 - 1)
    scale, codes = Ternary().split(w)
    monkeypatch.setattr("binaryrelax.quantizers.ternary.SORT_BELOW", 1 << 30)
    sorted_scale, sorted_codes = Ternary().split(w)
    if kind == "all cuts nearly tie":  # float64 sums cannot tell these apart, whole numbers can
        values = [value_of_cut(a, a[c != 0].min()) for c in (codes, sorted_codes)]
        assert abs(values[0] - values[1]) <= 1e-12 * values[0]
    else:
        assert same_bits(codes, sorted_codes)
        assert same_bits(scale, sorted_scale)


@every_kind
def test_projecting_twice_gives_the_same_bits(kind):
    w = float32_of_kind(kind, 70_000)
    once = Ternary().project(w)
    assert same_bits(Ternary().project(once), once)


@pytest.mark.parametrize("num_weights", [(1 << 16) - 1, 1 << 16, (1 << 20) + 1, (1 << 21) - 1])
def test_sizes_around_the_switch_and_the_chunks(num_weights):
    a = float32_of_kind("normal", num_weights)
    cut, scale = exact_ternary_cut(a)
    best = best_value_by_sorting(a)
    assert abs(value_of_cut(a, cut) - best) <= 1e-12 * best
    assert Ternary().split(a)[0] == torch.tensor(scale)


def test_largest_floats_do_not_overflow():
    a = torch.full((70_000,), torch.finfo(torch.float32).max)
    a[::2] = torch.finfo(torch.float32).tiny
    assert cut_found(a) == (35_000, float(a[1]))


def test_zeros_alone_keep_nothing():
    assert exact_ternary_cut(torch.zeros(100_000)) == (math.inf, 0.0)
