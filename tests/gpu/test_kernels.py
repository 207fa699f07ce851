"""The fused kernels on a CUDA device: networks of real size, graphs, no waiting."""

import pytest
import torch

from binaryrelax import PerGroup, PerLayer, Ternary
from binaryrelax_lab.models import build_network
from tests.kernels.lockstep import (
    GROUPED,
    NAN_OF_CUDA,
    PER_LAYER,
    QUANTIZERS,
    Twin,
    assert_follows_mix,
    assert_lockstep,
    assert_only_the_spoilt_is_marked,
    assert_projection,
    assert_recovers,
    assert_repeats,
    assert_same_as_fresh,
)
from tests.kernels.rows import hard_rows, staircase
from tests.quantizers.adversarial import KINDS, rows_of_every_kind
from tests.quantizers.cases import level_values, random_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
MILLIONS = 11_000_003  # odd: rows that no wide load divides


def network_weights():
    """Every convolution of a ResNet-18 and its Linear layer; every second one channels_last."""
    torch.manual_seed(0)
    weights = [p.detach() for p in build_network("resnet18", 3, 10).parameters() if p.dim() > 1]
    return [
        weight.to(memory_format=torch.channels_last) if weight.dim() == 4 and i % 2 else weight
        for i, weight in enumerate(weights)
    ]


def weights_for(quantizer):
    """A network's, which the groups of the quantizer divide."""
    return block_weights() if isinstance(quantizer.granularity, PerGroup) else network_weights()


def block_weights():
    """Two transformer blocks of width 512; no norms, no embedding."""
    shapes = 2 * [(512, 512)] * 4 + 2 * [(1536, 512)] * 2 + 2 * [(512, 1536)]
    return [random_weights(*shape, seed=i).mul_(0.02) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, *GROUPED], ids=repr)
def test_a_network_in_lockstep(quantizer):
    """Eq. 5, 6, 7 and 11."""
    assert_lockstep(Twin(quantizer, weights_for(quantizer)), mixes=(0.0, 0.3, 0.8))


@pytest.mark.parametrize("quantizer", GROUPED, ids=repr)
def test_hard_groups_in_lockstep(quantizer):
    size = quantizer.granularity.size
    hard = torch.stack([row[:size] for row in hard_rows(size).values()])
    kinds = rows_of_every_kind((8 * len(KINDS), size), level_values(quantizer), torch.float32)
    assert_lockstep(Twin(quantizer, [hard, kinds]), mixes=(0.3,))


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_one_large_weight_in_lockstep(quantizer):
    assert_lockstep(Twin(quantizer, [random_weights(MILLIONS)]), mixes=(0.0, 0.3))


@pytest.mark.parametrize("num_weights", [150, 9001, 300_000])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_hard_rows_in_lockstep(quantizer, num_weights):
    rows = [row.reshape(1, -1) for row in hard_rows(num_weights).values()]
    assert_lockstep(Twin(quantizer, rows), mixes=(0.3,))


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_adversarial_rows_in_lockstep(quantizer):
    weight = rows_of_every_kind((8 * len(KINDS), 1000), level_values(quantizer), torch.float32)
    if isinstance(quantizer.granularity, PerLayer):
        assert_lockstep(Twin(quantizer, list(weight)), mixes=(0.3,))
    else:
        assert_lockstep(Twin(quantizer, [weight]), mixes=(0.3,))


def test_nearly_flat_staircases():
    """Hundreds of cuts are nearly as good as the best, in rows of all sizes."""
    lengths = (300, 1000, 9001, 100_000)
    rows = [staircase(n, noise, seed=n) for n in lengths for noise in (1e-3, 1e-6)]
    assert_lockstep(Twin(Ternary(), [staircase(1000), *rows]), mixes=())


def test_pareto_tails_of_millions():
    """A^2/B is flat up to noise, so that many cuts are nearly as good as the best."""
    g = torch.Generator().manual_seed(0)
    row = torch.rand(MILLIONS, generator=g).clamp_(min=1e-12).rsqrt()
    assert_lockstep(Twin(Ternary(), [row]), mixes=())


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, *GROUPED], ids=repr)
def test_twenty_repetitions_give_the_same_bits(quantizer):
    """However the programs of a launch happen to be scheduled."""
    assert_repeats(Twin(quantizer, weights_for(quantizer)), times=20)


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_twenty_repetitions_of_one_large_weight(quantizer):
    assert_repeats(Twin(quantizer, [random_weights(MILLIONS)]), times=20)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_what_was_there_before_does_not_matter(quantizer):
    assert_recovers(Twin(quantizer, [random_weights(64, 577), random_weights(10, 64, seed=1)]))


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_thirty_steps_of_drift_stay_in_lockstep(quantizer):
    """Each search begins where the last one ended."""
    weights = [random_weights(64, 577), random_weights(10, 64, seed=1)]
    twin = Twin(quantizer, weights)
    for step in range(30):
        weights = [w + 0.1 * random_weights(*w.shape, seed=step) for w in weights]
        twin.overwrite(weights)
        for weight, x in zip(weights, assert_same_as_fresh(twin), strict=True):
            assert_projection(quantizer, weight, x)


@pytest.mark.parametrize("value", [NAN_OF_CUDA, float("inf")])
@pytest.mark.parametrize("quantizer", [*QUANTIZERS, *GROUPED], ids=repr)
def test_one_bad_number_marks_its_weight_and_spoils_no_other(quantizer, value):
    assert_only_the_spoilt_is_marked(quantizer, weights_for(quantizer), 5, value)


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, *GROUPED], ids=repr)
def test_a_captured_call_follows_mix_and_weights(quantizer):
    twin = Twin(quantizer, weights_for(quantizer))
    twin.relax(1.0)  # compiles the kernels, which a capture cannot
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        twin.fused(twin.mix)
    assert_follows_mix(twin, graph.replay)
    twin.overwrite([y * -1e10 for y in twin.weights()])
    assert_follows_mix(twin, graph.replay)


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, *GROUPED], ids=repr)
def test_relaxation_never_waits_for_the_device(quantizer):
    twin = Twin(quantizer, weights_for(quantizer))
    twin.relax(1.0)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for mix in (0.3, 1.0):
            twin.mix.fill_(mix)
            twin.fused(twin.mix)
            assert twin.fused.is_current()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for weight, x in zip(twin.weights(), twin.xs, strict=True):
        assert_projection(quantizer, weight, x.cpu())
