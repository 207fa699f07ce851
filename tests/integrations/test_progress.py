import math
from functools import partial

import pytest
import torch
from torch import nn

from binaryrelax import (
    BinaryRelax,
    GeometricGrowth,
    Hard,
    LinearMix,
    PerGroup,
    Ternary,
    TernaryThreshold,
    Uniform,
    measure,
    select_weights,
)
from binaryrelax.integrations.progress import figures, is_in_q, schedule_over


def relaxed(schedule, quantizer=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    base = torch.optim.SGD(model.parameters(), lr=0.5)
    return model, BinaryRelax(base, select_weights(model, quantizer or Ternary()), schedule)


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("plan", "schedule"),
    [
        (GeometricGrowth.over, GeometricGrowth.reaching(150.0, phase_one_steps=80, every=1)),
        (
            partial(GeometricGrowth.over, phase_one=0.29, initial=2.0, target=8.0),
            GeometricGrowth.reaching(8.0, phase_one_steps=29, every=1, initial=2.0),
        ),
        (LinearMix.over, LinearMix(0, 80)),
        (partial(LinearMix.over, phase_one=0.5), LinearMix(0, 50)),
        (Hard(), Hard()),
        (lambda steps: LinearMix(10, steps), LinearMix(10, 100)),
    ],
)
def test_a_schedule_is_stated_in_shares_of_the_training(plan, schedule):
    assert schedule_over(plan, 100) == schedule


@pytest.mark.parametrize("num_steps", range(1, 8))
def test_trainings_of_few_steps_have_schedules_too(num_steps):
    for over in (GeometricGrowth.over, LinearMix.over):
        schedule = over(num_steps)
        assert schedule(max(1, num_steps * 4 // 5)) == math.inf
        assert all(schedule(step) < math.inf for step in range(num_steps * 4 // 5))


def test_shares_are_checked():
    for over in (GeometricGrowth.over, LinearMix.over):
        with pytest.raises(ValueError, match=r"over\(phase_one=1.5\).*between 0 and 1"):
            over(100, phase_one=1.5)
        with pytest.raises(ValueError, match="num_steps"):
            over(math.inf)
    with pytest.raises(ValueError, match=r"gave 100 for 100 steps: give a Schedule"):
        schedule_over(lambda steps: steps, 100)


def test_figures_are_those_of_all_layers_together():
    model, optimizer = relaxed(GeometricGrowth.over(10))
    assert "relax/level_flips" not in figures(optimizer)
    train(model, optimizer, 5)
    before = [w.clone() for w in optimizer.float_weights.values()]
    found = figures(optimizer)
    records = measure(optimizer)
    assert found["relax/strength"] == optimizer.strength and found["relax/phase"] == 1
    assert found["relax/distance"] == pytest.approx(sum(r.distance**2 for r in records) ** 0.5)
    train(model, optimizer, 1)
    codes = [
        [Ternary().split(y)[1] for y in ys] for ys in (before, optimizer.float_weights.values())
    ]
    changed = sum(int((old != new).sum()) for old, new in zip(*codes, strict=True))
    num_weights = sum(w.numel() for w in before)
    assert figures(optimizer)["relax/level_flips"] == pytest.approx(changed / num_weights)


@pytest.mark.parametrize(
    "quantizer",
    [Ternary(), TernaryThreshold(), Uniform(bits=4), Ternary(granularity=PerGroup(4))],
    ids=repr,
)
def test_what_is_left_in_phase_one_is_named(quantizer):
    model, optimizer = relaxed(GeometricGrowth.over(10), quantizer)
    train(model, optimizer, 8)
    with pytest.warns(UserWarning, match=r"2 of 2 weights outside of Q \('0.weight' is the first"):
        assert not is_in_q(optimizer)
    train(model, optimizer, 1)
    assert is_in_q(optimizer)
