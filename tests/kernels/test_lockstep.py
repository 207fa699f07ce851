"""All weights of a call, whatever their shapes, are relaxed as the reference relaxes them."""

import pytest
import torch

from binaryrelax import PerChannel, PerLayer, Ternary, TernaryAbsMean, TernaryThreshold
from tests.kernels.lockstep import (
    NAN_OF_CUDA,
    PER_LAYER,
    QUANTIZERS,
    QUIET,
    TERNARY,
    Twin,
    assert_follows_mix,
    assert_lockstep,
    assert_only_the_spoilt_is_marked,
    assert_projection,
    assert_recovers,
    assert_repeats,
    assert_same_as_fresh,
)
from tests.quantizers.cases import random_weights, same_bits

pytestmark = QUIET
CHUNK = 4096  # the smallest


def small_weights():
    """Odd lengths, a single weight, a channels_last convolution, a Linear layer."""
    convolution = random_weights(4, 3, 3, 3, seed=1).to(memory_format=torch.channels_last)
    assert not convolution.is_contiguous()
    return [
        torch.tensor([-0.3]),
        random_weights(1, 27),
        convolution * 0.05,
        random_weights(3, 7, seed=2) * 20,
    ]


def aligned_weights():
    """All lengths are multiples of four, and so are those of the channels: wide loads."""
    convolution = random_weights(2, 4, 3, 3, seed=3).to(memory_format=torch.channels_last)
    return [random_weights(2, 8), convolution, random_weights(1, CHUNK, seed=4)]


def long_weights():
    """One less than a chunk, one more, and over three chunks."""
    return [
        random_weights(1, CHUNK - 1),
        random_weights(1, CHUNK + 1, seed=5),
        random_weights(1, 2 * CHUNK + 27, seed=6),
    ]


@pytest.mark.parametrize("weights", [small_weights, aligned_weights, long_weights])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_fused_relaxation_equals_the_reference(quantizer, weights):
    """Eq. 5, 6, 7 and 11."""
    twin = Twin(quantizer, weights())
    assert twin.fused.rows.is_aligned == (weights is aligned_weights)
    assert_lockstep(twin, mixes=(0.0, 0.3, 0.8) if weights is small_weights else (0.3,))


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_a_weight_without_dimensions(quantizer):
    assert_lockstep(Twin(quantizer, [torch.tensor(-2.5)]), mixes=(0.3,))


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_layers_and_chunks_of_a_network_share_each_launch(quantizer):
    """The sums of one weight never reach into those of its neighbours."""
    weights = [random_weights(n, seed=n) * 10.0**i for i, n in enumerate((5, 4100, 1, 64, 8200))]
    together = Twin(quantizer, weights).relax(1.0)
    for weight, x in zip(weights, together, strict=True):
        assert same_bits(x, Twin(quantizer, [weight]).relax(1.0)[0])


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_chunks_of_several_tiles(quantizer, monkeypatch):
    """Millions of weights make larger chunks; here a few thousand do."""
    monkeypatch.setattr("binaryrelax.kernels.row_table.TARGET_CHUNKS", 1)
    twin = Twin(quantizer, [random_weights(12_345), random_weights(3, 5)])
    assert twin.fused.rows.chunk_size == 16_384
    assert_lockstep(twin, mixes=(0.3,))


@pytest.mark.parametrize("quantizer", TERNARY, ids=repr)
def test_long_and_short_rows_are_searched_alike(quantizer):
    """A short row beside a long one is searched in other bins; the result has the same bits."""
    alone = Twin(quantizer, small_weights()).relax(1.0)
    beside = Twin(quantizer, [*small_weights(), random_weights(1, 2 * CHUNK)]).relax(1.0)
    for x, same in zip(beside[:-1], alone, strict=True):
        assert same_bits(x, same)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_the_same_weights_give_the_same_bits(quantizer):
    assert_repeats(Twin(quantizer, [*small_weights(), random_weights(1, 4200)]), times=1)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_what_was_there_before_does_not_matter(quantizer):
    """Other scales, zeros and NaN are overcome: a warm search ends where a fresh one does."""
    assert_recovers(Twin(quantizer, [random_weights(1, 27), random_weights(1, 60, seed=1)]))


@pytest.mark.parametrize("value", [float("nan"), NAN_OF_CUDA, float("inf")])
def test_a_search_that_begins_with_bad_numbers_recovers(value):
    weight = random_weights(1, 60)
    twin = Twin(Ternary(), [torch.full_like(weight, value)])
    twin.overwrite([weight])
    assert_projection(twin.quantizer, weight, assert_same_as_fresh(twin)[0])


@pytest.mark.parametrize("value", [NAN_OF_CUDA, -float("inf")])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_one_bad_number_marks_its_weight_and_spoils_no_other(quantizer, value):
    weights = [random_weights(2, 9), random_weights(3, 5, seed=1), random_weights(1, 4, seed=2)]
    assert_only_the_spoilt_is_marked(quantizer, weights, 1, value)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_every_call_reads_mix_and_weights_anew(quantizer):
    twin = Twin(quantizer, [random_weights(2, 27)])
    assert_follows_mix(twin, lambda: twin.fused(twin.mix))


def test_the_threshold_is_that_of_float64():
    """0.7 rounded to float32 lies below 0.7: a weight of that size is dropped (eq. 7)."""
    at_threshold = torch.tensor(0.7).item()
    row = torch.tensor([at_threshold, -at_threshold, 2.0, 4 - 2 - 2 * at_threshold])
    assert row.double().abs().mean() == 1
    twin = Twin(TernaryThreshold(granularity=PerLayer()), [row])
    assert twin.relax(1.0)[0].tolist() == [0, 0, 2, 0]


def test_halves_of_the_mean_and_points_of_q_are_those_of_the_reference():
    """BitNet's absmean: halves go to even, and one magnitude makes a row its own projection."""
    above = 1 + 2.0**-23
    rows = [[1, -1, 3, 3], [1, above, 3, 3 - 2.0**-23], [3, 1, 1, 3], [0, 7, -7, 0], [0, 0, 5, 0]]
    weight = torch.tensor(rows, dtype=torch.float32)
    quantizer = TernaryAbsMean(granularity=PerChannel())
    found = Twin(quantizer, [weight]).relax(1.0)[0]
    assert same_bits(found, quantizer.project(weight))
    assert found[0].tolist() == [0, 0, 2, 2] and found[1].tolist() == [0, 2, 2, 2]
    assert torch.equal(found[3:], weight[3:])


@pytest.mark.parametrize(
    "row",
    [[-0.0, 0.0, -1.0, 3.0], [-(2.0**-149), 0.0, 0.0, -0.0], [-(2.0**-149), 2.0**-148, *[0.0] * 9]],
)
def test_zeros_and_scales_that_underflow_take_the_code_of_the_reference(row):
    for quantizer in PER_LAYER:
        weight = torch.tensor(row)
        assert same_bits(Twin(quantizer, [weight]).relax(1.0)[0], quantizer.project(weight))
