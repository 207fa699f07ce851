"""measure and monitor: every number against its definition."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.optim import SGD

from binaryrelax import (
    Binary,
    BinaryRelax,
    Hard,
    PerChannel,
    Quantizer,
    Ternary,
    Uniform,
    distance,
    measure,
    monitor,
)
from tests.optim.toy import SHORT, small_network, train, wrapped


@pytest.mark.parametrize(
    "quantizer", [Binary(), Ternary(), Uniform(bits=4, granularity=PerChannel())], ids=repr
)
def test_records_against_their_definitions(quantizer):
    model = small_network()
    optimizer = wrapped(model, quantizer=quantizer)
    train(model, optimizer, 9)
    for record, (weight, y) in zip(
        measure(optimizer), optimizer.float_weights.items(), strict=True
    ):
        scale, codes = quantizer.split(y)
        assert record.name == optimizer.names[weight]
        assert record.num_weights == weight.numel()
        assert record.strength == optimizer.strength
        assert record.float_distance == pytest.approx(distance(y, quantizer).item(), rel=1e-5)
        expected = record.float_distance / (record.strength + 1)  # x lies between y and proj(y)
        assert record.distance == pytest.approx(expected, rel=1e-4)
        assert record.scale == pytest.approx(scale.mean().item(), rel=1e-6)
        assert record.zeros == pytest.approx((codes == 0).float().mean().item())
        assert record.sign_flips is record.movement is record.alpha is None


def test_channels_last_weights_are_measured_without_a_warning():
    """torch warns of codes that are not contiguous, and a warning is an error here."""
    model = small_network().to(memory_format=torch.channels_last)
    plain = small_network()
    found, expected = measure(wrapped(model)), measure(wrapped(plain))
    assert [record.scale for record in found] == [record.scale for record in expected]


def test_flips_are_counted_between_calls():
    model = small_network()
    optimizer = wrapped(model, quantizer=Ternary(), schedule=Hard())
    measure(optimizer)
    assert all(r.level_flips == r.sign_flips == 0 for r in measure(optimizer))
    weight = model[0].weight
    before = optimizer.quantizers[weight].split(optimizer.float_weights[weight])[1]
    with torch.no_grad():
        optimizer.float_weights[weight][0].neg_()
    first, second = measure(optimizer)
    changed = (before[0] != 0).sum().item() / weight.numel()
    assert first.sign_flips == first.level_flips == pytest.approx(changed)
    assert second.level_flips == 0


@dataclass(frozen=True, repr=False)
class ManyLevels(Quantizer):
    """Multiples of a step, more of them than a byte can count."""

    num_levels: int = 300

    @property
    def codebook(self):
        half = self.num_levels // 2
        return tuple(float(code) for code in range(-half, half + 1))

    def split_rows(self, rows):
        half = self.num_levels // 2
        scale = rows.abs().amax(1).clamp(min=1e-9) / half
        return scale, (rows / scale[:, None]).round().clamp(-half, half)


@pytest.mark.parametrize("num_levels", [254, 300, 512, 70_000])
def test_flips_are_counted_with_more_codes_than_fit_a_byte(num_levels):
    weight = nn.Parameter(torch.linspace(-1, 1, 512).reshape(16, 32))
    optimizer = BinaryRelax(SGD([weight], lr=0.1), {weight: ManyLevels(num_levels)}, Hard())
    measure(optimizer)
    with torch.no_grad():
        optimizer.float_weights[weight].neg_()
    optimizer.step()
    (record,) = measure(optimizer)
    assert record.sign_flips > 0.98
    assert record.level_flips > 0.98


def adopt_others(model, optimizer):
    with torch.no_grad():
        model[0].weight.fill_(7.0)
    optimizer.adopt_weights()


def load_an_earlier_state(model, optimizer):
    optimizer.load_state_dict(copy.deepcopy(wrapped(small_network(seed=1)).state_dict()))


@pytest.mark.parametrize("replace", [adopt_others, load_an_earlier_state])
def test_movement_is_not_measured_across_weights_that_no_step_wrote(replace):
    model = small_network()
    optimizer = wrapped(model)
    with monitor(optimizer):
        train(model, optimizer, 1)
        assert all(record.movement > 0 for record in measure(optimizer))
        replace(model, optimizer)
        assert all(r.movement is r.alpha is None for r in measure(optimizer))
        train(model, optimizer, 1)
        assert all(0 < record.movement < 7 for record in measure(optimizer))


def test_an_empty_weight_has_numbers_too():
    weight = nn.Parameter(torch.zeros(0, 3))
    (record,) = measure(BinaryRelax(SGD([weight], lr=0.1), {weight: Binary()}, Hard()))
    assert record.num_weights == record.zeros == record.distance == 0


def test_distance_is_zero_in_phase_two_and_strength_infinite():
    model = small_network()
    optimizer = wrapped(model, schedule=SHORT)
    train(model, optimizer, 31)
    for record in measure(optimizer):
        assert record.distance == 0 < record.float_distance
        assert math.isinf(record.strength)


def test_alpha_is_that_of_the_lemma():
    """α‖x' - x‖² + ‖y - x‖² = ‖y - x'‖² (lem:othor), in float64 and Phase II."""
    model = small_network().double()
    optimizer = wrapped(model, schedule=Hard())
    with monitor(optimizer):
        assert all(r.alpha is None for r in measure(optimizer))
        for _ in range(5):
            x = {w: w.detach().clone() for w in optimizer.quantizers}
            y = {w: v.clone() for w, v in optimizer.float_weights.items()}
            train(model, optimizer, 1)
            for record, weight in zip(measure(optimizer), x, strict=True):
                moved = (weight - x[weight]).norm().item()
                assert record.movement == pytest.approx(moved)
                left = record.alpha * moved**2 + (y[weight] - x[weight]).norm().item() ** 2
                assert left == pytest.approx((y[weight] - weight).norm().item() ** 2)
                assert record.alpha >= -1e-6
    assert all(r.movement is None for r in measure(optimizer))


def test_alpha_of_a_step_that_moves_nothing_is_none():
    model = small_network()
    optimizer = wrapped(model, schedule=Hard())
    with monitor(optimizer):
        optimizer.step()  # no gradients yet
        assert all(r.movement == 0 and r.alpha is None for r in measure(optimizer))


def test_measuring_inside_projected_is_refused():
    optimizer = wrapped(small_network())
    with optimizer.projected(), pytest.raises(RuntimeError, match=r"measure\(\) inside"):
        measure(optimizer)


def test_measuring_changes_no_training():
    model, plain = small_network(), small_network()
    watched, unwatched = wrapped(model), wrapped(plain)
    with monitor(watched):
        for _ in range(5):
            train(model, watched, 1)
            measure(watched)
    train(plain, unwatched, 5)
    assert all(map(torch.equal, model.parameters(), plain.parameters()))
