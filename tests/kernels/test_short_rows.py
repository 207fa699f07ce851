"""Groups of 32 to 256 weights, each with its own scale, are relaxed as the reference does it."""

import pytest
import torch

from binaryrelax import PerChannel, PerGroup, Ternary, TernaryAbsMean
from tests.kernels.exact import best_cut, cut_of, value_ratio
from tests.kernels.lockstep import (
    GROUPED,
    NAN_OF_CUDA,
    PER_LAYER,
    QUIET,
    Twin,
    assert_follows_mix,
    assert_lockstep,
    assert_only_the_spoilt_is_marked,
    assert_projection,
    assert_recovers,
    assert_repeats,
    assert_scale,
)
from tests.kernels.rows import any_row, hard_rows
from tests.quantizers.adversarial import KINDS, rows_of_every_kind
from tests.quantizers.cases import level_values, random_weights, same_bits, with_granularity

pytestmark = QUIET
OF_EACH_SIZE = [with_granularity(Ternary(), PerGroup(size)) for size in (32, 64, 128, 256)]
OF_64 = [with_granularity(quantizer, PerGroup(64)) for quantizer in PER_LAYER]
ROUNDING = 2.0**-50  # of A^2/B in float64


def weights_of_all_sizes():
    """One group, a tile and a bit, a chunk and a bit, a convolution's shape."""
    shapes = [(1, 256), (9, 256), (17, 256), (2, 64, 2, 2)]
    return [random_weights(*shape, seed=i) * 10.0**-i for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("quantizer", GROUPED, ids=repr)
def test_groups_have_the_bits_of_the_reference(quantizer):
    """Eq. 5, 6, 7, BitNet's absmean, and eq. 11."""
    twin = Twin(quantizer, weights_of_all_sizes())
    for y, projected in zip(twin.weights(), twin.relax(1.0), strict=True):
        assert same_bits(projected, quantizer.project(y))
    for y, x in zip(twin.weights(), twin.relax(0.0), strict=True):
        assert same_bits(x, y)


@pytest.mark.parametrize("quantizer", OF_64, ids=repr)
def test_chunks_of_several_tiles(quantizer, monkeypatch):
    monkeypatch.setattr("binaryrelax.kernels.row_table.TARGET_CHUNKS", 1)
    twin = Twin(quantizer, [random_weights(200, 64), random_weights(3, 64)])
    assert twin.fused.rows.chunk_size == 16_384
    assert_lockstep(twin, mixes=(0.3,))


@pytest.mark.parametrize("quantizer", GROUPED, ids=repr)
def test_adversarial_groups(quantizer):
    size = quantizer.granularity.size
    weight = rows_of_every_kind((len(KINDS), size), level_values(quantizer), torch.float32)
    assert_projection(quantizer, weight, Twin(quantizer, [weight]).relax(1.0)[0])


@pytest.mark.parametrize("quantizer", OF_64, ids=repr)
def test_hard_groups(quantizer):
    """Zeros, ties, denormals and floats that nearly overflow, each in a group of its own."""
    weight = torch.stack([row[:64] for row in hard_rows(64).values()])
    assert_projection(quantizer, weight, Twin(quantizer, [weight]).relax(1.0)[0])


@pytest.mark.parametrize("quantizer", OF_EACH_SIZE, ids=repr)
def test_exact_ternary_groups_are_cut_at_the_optimum(quantizer):
    """No cut has a larger A^2/B than the one that was found, in whole numbers (eq. 6)."""
    size = quantizer.granularity.size
    weight = torch.zeros(40, size)
    for seed, row in enumerate(weight):
        some = any_row(seed)[:size]
        row[: len(some)] = some[torch.randperm(len(some))]
    for row, found in zip(weight, Twin(quantizer, [weight]).relax(1.0)[0], strict=True):
        best, cut = best_cut(row), cut_of(row, found != 0)
        assert_scale(found, cut)
        assert cut.count == best.count == 0 or value_ratio(cut, best) > 1 - ROUNDING


def test_ties_go_to_the_larger_scale():
    rows = torch.zeros(3, 32)
    for row, given in zip(rows, ([6.0, 2, 2, 2], [5.0] * 4 + [-2.0] * 5, [3.0] * 3), strict=True):
        row[: len(given)] = torch.tensor(given)
    found = Twin(Ternary(granularity=PerGroup(32)), [rows]).relax(1.0)[0]
    assert found.count_nonzero(1).tolist() == [1, 4, 3]


def test_halves_of_the_mean_and_points_of_q():
    above = 1 + 2.0**-23
    rows = [[1, -1, 3, 3], [1, above, 3, 3 - 2.0**-23], [0, 7, -7, 0], [0, 0, -0.0, -(2.0**-149)]]
    weight = torch.tensor(rows).repeat(1, 8)
    quantizer = TernaryAbsMean(granularity=PerGroup(32))
    found = Twin(quantizer, [weight]).relax(1.0)[0]
    assert same_bits(found, TernaryAbsMean(granularity=PerChannel()).project(weight))
    assert found[0, :4].tolist() == [0, 0, 2, 2] and found[1, :4].tolist() == [0, 2, 2, 2]
    assert torch.equal(found[2:], weight[2:])


@pytest.mark.parametrize("quantizer", OF_64, ids=repr)
def test_the_same_weights_give_the_same_bits_and_nothing_is_left_behind(quantizer):
    twin = Twin(quantizer, [random_weights(9, 64), random_weights(2, 128, seed=1)])
    assert_repeats(twin, times=2)
    assert_recovers(twin)
    assert_follows_mix(twin, lambda: twin.fused(twin.mix))


@pytest.mark.parametrize("value", [NAN_OF_CUDA, -float("inf")])
@pytest.mark.parametrize("quantizer", OF_64, ids=repr)
def test_one_bad_number_marks_its_weight_and_spoils_no_other(quantizer, value):
    weights = [random_weights(40, 64), random_weights(70, 64, seed=1), random_weights(1, 64)]
    assert_only_the_spoilt_is_marked(quantizer, weights, 1, value)


def test_the_mix_may_move():
    """What is kept for a mix must not be used for another."""
    twin = Twin(Ternary(granularity=PerGroup(32)), [random_weights(2, 64)])
    first = twin.relax(0.3)[0]
    twin.mix = twin.mix.clone()
    assert not torch.equal(twin.relax(0.8)[0], first)
    assert same_bits(twin.relax(0.3)[0], first)
