"""The search finds the best cut of eq. 6 in rows made to mislead it."""

import pytest
import torch
from hypothesis import given, strategies as st

from binaryrelax import PerChannel, PerLayer, Ternary
from tests.kernels.exact import best_cut, cut_of, value_ratio
from tests.kernels.lockstep import (
    IS_INTERPRETED,
    PER_LAYER,
    QUANTIZERS,
    QUIET,
    Twin,
    assert_lockstep,
    assert_projection,
    assert_same_as_fresh,
    assert_scale,
)
from tests.kernels.rows import LARGEST, any_row, hard_rows, staircase
from tests.quantizers.adversarial import KINDS, rows_of_every_kind
from tests.quantizers.cases import level_values, random_weights, same_bits, with_granularity

pytestmark = QUIET
ROUNDING = 2.0**-50  # of A^2/B in float64


def assert_optimal(row, projected):
    """No cut has a larger A^2/B than the one that was found, in whole numbers (eq. 6)."""
    best, found = best_cut(row), cut_of(row, projected != 0)
    assert_scale(projected, found)
    if best.count:
        assert value_ratio(found, best) > 1 - ROUNDING
    else:
        assert found.count == 0


def search_as_large_rows(monkeypatch):
    """Rows beyond 65,536 weights have narrower bins; the interpreter would take too long there."""
    if not IS_INTERPRETED:
        pytest.skip("a compiled kernel holds the constant; tests/gpu has rows of that size")
    monkeypatch.setattr("binaryrelax.kernels.ternary_bins.SMALL_ROW", 0)
    monkeypatch.setattr("binaryrelax.kernels.fused_relaxation.LONG_ON_AVERAGE", 0)


@pytest.mark.parametrize("is_large", [False, True], ids=["small rows", "large rows"])
def test_weights_that_drift(is_large, monkeypatch):
    """Most steps end in the window of narrow bins around the cut before."""
    if is_large:
        search_as_large_rows(monkeypatch)
    row = random_weights(60_000)
    twin = Twin(Ternary(), [row])
    for seed in range(1, 7):
        projected = twin.relax(1.0)[0]
        assert_optimal(row, projected)
        assert not twin.fused._launches.search.window.any()  # left empty for the next step
        row = row + 1e-5 * random_weights(60_000, seed=seed)
        twin.overwrite([row])


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_hard_layers(quantizer):
    rows = list(hard_rows(150).values())
    for row, projected in zip(rows, Twin(quantizer, rows).relax(1.0), strict=True):
        assert_projection(quantizer, row, projected)
        if isinstance(quantizer, Ternary):
            assert_optimal(row, projected)


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_adversarial_channels(quantizer):
    """One channel for each of the kinds that the reference is tested with."""
    quantizer = with_granularity(quantizer, PerChannel())
    weight = rows_of_every_kind((len(KINDS), 90), level_values(quantizer), torch.float32)
    projected = Twin(quantizer, [weight]).relax(1.0)[0]
    assert_projection(quantizer, weight, projected)
    if isinstance(quantizer, Ternary):
        for row, found in zip(weight, projected, strict=True):
            assert_optimal(row, found)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_hard_layers_of_several_chunks(quantizer):
    rows = [row.reshape(-1, 1 if row.numel() % 3 else 3) for row in hard_rows(9000).values()]
    rows = [row.T.contiguous() for row in rows]  # one or three channels
    assert_lockstep(Twin(quantizer, rows), mixes=(0.3,))


def test_a_nearly_flat_staircase():
    """Hundreds of cuts are nearly as good as the best: the last launch goes on by itself."""
    row = staircase(300)
    assert_optimal(row, Twin(Ternary(), [row]).relax(1.0)[0])


@pytest.mark.parametrize("as_large_rows", [False, True])
def test_noisy_staircases(as_large_rows, monkeypatch):
    """Suspects lie on both sides of the first bins' ends; none is forgotten."""
    if as_large_rows:
        search_as_large_rows(monkeypatch)
    rows = [staircase(300, noise=1e-3, seed=seed) for seed in (0, 11, 15)]
    for row, projected in zip(rows, Twin(Ternary(), rows).relax(1.0), strict=True):
        assert_optimal(row, projected)


@pytest.mark.slow
@pytest.mark.parametrize("as_large_rows", [False, True])
def test_rows_of_all_kinds_after_each_other(as_large_rows, monkeypatch):
    """Each row is first searched with the guess that another row has left."""
    if as_large_rows:
        search_as_large_rows(monkeypatch)
    rows = [any_row(seed) for seed in range(80)]
    for n in {len(row) for row in rows}:
        same_length = [row for row in rows if len(row) == n]
        twin = Twin(Ternary(), [same_length[-1]])
        for row in same_length:
            twin.overwrite([row])
            assert_optimal(row, assert_same_as_fresh(twin)[0])


@pytest.mark.slow
@pytest.mark.parametrize("num_weights", [700, 1000])
def test_longer_staircases(num_weights):
    row = staircase(num_weights)
    assert_optimal(row, Twin(Ternary(), [row]).relax(1.0)[0])


@pytest.mark.parametrize(
    ("row", "num_kept"), [([6.0, 2, 2, 2], 1), ([5.0] * 4 + [-2.0] * 5, 4), ([3.0] * 3, 3)]
)
def test_ties_go_to_the_larger_scale(row, num_kept):
    row = torch.tensor(row)
    assert int((Twin(Ternary(), [row]).relax(1.0)[0] != 0).sum()) == num_kept


any_float = st.integers(0, 0x7F7FFFFF).map(lambda bits: torch.tensor(bits, dtype=torch.int32))
any_float = any_float.map(lambda bits: bits.view(torch.float32).item())
few_integers = st.integers(-9, 9).map(float)
like_weights = st.floats(-2, 2, width=32)
row_lists = st.lists(
    st.one_of(
        st.lists(few_integers, min_size=1, max_size=9),
        st.lists(like_weights, min_size=1, max_size=9),
        st.lists(any_float, min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=4,
)


@given(rows=row_lists)
def test_small_rows_are_cut_at_the_optimum(rows):
    weights = [torch.tensor(row) for row in rows]
    for weight, projected in zip(weights, Twin(Ternary(), weights).relax(1.0), strict=True):
        assert_optimal(weight, projected)


@pytest.mark.slow
@given(rows=row_lists, later=row_lists)
def test_small_rows_after_other_rows(rows, later):
    """Whatever the guess is, the search ends where a fresh one does."""
    n = max(len(row) for row in rows + later)
    rows = [torch.tensor(row + [0.0] * (n - len(row))) for row in rows]
    later = [torch.tensor(row + [0.0] * (n - len(row))) for row in later]
    twin = Twin(Ternary(), [rows[0]])
    for row in rows[1:] + later:
        twin.overwrite([row])
        assert_optimal(row, assert_same_as_fresh(twin)[0])


def test_a_cut_beyond_the_edges_of_an_old_guess():
    """20 times the old guess is no float32 any more; the best cut lies below that edge."""
    twin = Twin(Ternary(), [torch.full((101,), 6e37)])
    twin.relax(1.0)
    row = torch.tensor([3.3e38] * 100 + [1.6e38])
    twin.overwrite([row])
    assert_optimal(row, assert_same_as_fresh(twin)[0])


@pytest.mark.parametrize("seed", [2, 14])
def test_the_sum_of_the_kept_weights_is_exact(seed):
    """Their mean lies in the middle of two float32 numbers: the least error would be seen."""
    g = torch.Generator().manual_seed(seed)
    small = 0.01 * torch.rand(400, generator=g) * 2 ** (-30 * torch.rand(400, generator=g))
    row = torch.cat([torch.tensor([1.0, 1 + 2.0**-23]), small])
    twin = Twin(Ternary(), [torch.full_like(row, 1e20)])
    twin.relax(1.0)
    twin.overwrite([row])
    assert same_bits(assert_same_as_fresh(twin)[0], Ternary().project(row))


def test_the_largest_floats_are_not_lost():
    row = torch.tensor([LARGEST] * 3 + [0.45 * LARGEST] + [-1.0] * 200)
    assert_optimal(row, Twin(Ternary(), [row]).relax(1.0)[0])


@pytest.mark.slow
@pytest.mark.parametrize("granularity", [PerLayer(), PerChannel()], ids=repr)
def test_a_training_of_twenty_steps_stays_in_lockstep(granularity):
    """Each search begins where the last one ended, while the weights drift."""
    quantizer, weights = Ternary(granularity=granularity), [random_weights(2, 300)]
    twin = Twin(quantizer, weights)
    for step in range(20):
        weights = [w + 0.1 * random_weights(*w.shape, seed=step) for w in weights]
        twin.overwrite(weights)
        assert_projection(quantizer, weights[0], twin.relax(1.0)[0])
