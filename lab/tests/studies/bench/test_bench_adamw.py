"""The benchmark of AdamW's step: what it takes steps of, at sizes that take a moment."""

import pytest
import torch

from binaryrelax import BinaryRelax, PerGroup, TernaryAbsMean
from binaryrelax_lab.studies.bench.adamw import (
    LEFT_TO_BASE,
    QUANTIZERS,
    OwnAdamW,
    Sizes,
    TokenSteps,
    bench_adamw,
)

LITTLE = Sizes(width=64, hidden=128, blocks=1, tokens=8)


def test_the_network_has_the_matrices_of_a_small_language_model():
    assert sum(inputs * outputs for inputs, outputs in Sizes().shapes) == 27_262_976
    groups = [q.granularity.size for q in QUANTIZERS if isinstance(q.granularity, PerGroup)]
    assert all(inputs % size == 0 for inputs, _ in Sizes().shapes for size in groups)
    assert all(isinstance(quantizer, TernaryAbsMean) for quantizer in LEFT_TO_BASE)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, OwnAdamW])
@pytest.mark.parametrize("quantizer", [None, TernaryAbsMean(granularity=PerGroup(64))])
def test_steps_move_all_weights(quantizer, kind):
    steps = TokenSteps(LITTLE, quantizer, torch.device("cpu"), kind)
    assert len(steps.layers) == 7 and isinstance(steps.optimizer, BinaryRelax) == bool(quantizer)
    before = [weight.detach().clone() for weight in steps.layers.parameters()]
    steps.take(2)
    assert not any(map(torch.equal, before, steps.layers.parameters()))


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a CUDA device")
def test_a_machine_without_a_gpu_is_told():
    with pytest.raises(ValueError, match="bench adamw needs a CUDA device"):
        bench_adamw(print)
