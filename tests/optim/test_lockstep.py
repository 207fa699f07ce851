"""The optimizer against Algorithm 1 written down plainly, step by step."""

import pytest
import torch
from torch.optim import SGD, Adam, AdamW, RMSprop

from binaryrelax import (
    Binary,
    Hard,
    LinearMix,
    PerChannel,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
)
from tests.optim.toy import SHORT, small_network, train, train_by_the_paper, wrapped

BASES = {
    "sgd": lambda model: SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda model: Adam(model.parameters(), lr=0.01),
    "adamw": lambda model: AdamW(model.parameters(), lr=0.01, weight_decay=0.1),
    "rmsprop": lambda model: RMSprop(model.parameters(), lr=0.003, momentum=0.5),
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize(
    "quantizer",
    [
        Binary(),
        Ternary(),
        TernaryThreshold(),
        TernaryAbsMean(),
        Uniform(bits=3, granularity=PerChannel()),
    ],
    ids=repr,
)
def test_equals_algorithm_1_at_every_step(base, quantizer):
    ours, plain = small_network().double(), small_network().double()
    optimizer = wrapped(ours, base, quantizer)
    by_name = dict(plain.named_parameters())
    quantizers = {by_name[optimizer.names[w]]: q for w, q in optimizer.quantizers.items()}
    for y in train_by_the_paper(plain, base(plain), quantizers, SHORT, 40):
        train(ours, optimizer, 1)
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
        for a, b in zip(optimizer.float_weights.values(), y.values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert optimizer.phase == 2


@pytest.mark.parametrize("base", [BASES["sgd"], BASES["adamw"]], ids=["sgd", "adamw"])
def test_strength_zero_is_the_base_optimizer_bit_for_bit(base):
    ours, plain = small_network(), small_network()
    optimizer = wrapped(ours, base, schedule=LinearMix(start=1000, end=1001))
    reference = base(plain)
    for _ in range(100):
        train(ours, optimizer, 1)
        train(plain, reference, 1)
        assert all(map(torch.equal, ours.parameters(), plain.parameters()))


@pytest.mark.parametrize("schedule", [SHORT, Hard(), LinearMix(0, 20)], ids=repr)
def test_weights_end_exactly_in_q(schedule):
    """Phase II is eq. 12: x = proj(y)."""
    model = small_network()
    optimizer = wrapped(model, schedule=schedule)
    train(model, optimizer, 35)
    assert optimizer.phase == 2
    for weight, quantizer in optimizer.quantizers.items():
        assert torch.equal(weight, quantizer.project(optimizer.float_weights[weight]))
        assert torch.equal(weight, quantizer.project(weight))
