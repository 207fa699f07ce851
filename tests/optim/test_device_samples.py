"""What notices replaced weights on a device, called on CPU tensors: nothing in it is CUDA's."""

import pytest
import torch
from torch import nn

from binaryrelax.optim.device_flags import CALLS_BETWEEN_READS
from binaryrelax.optim.device_samples import SAMPLE_SIZE, DeviceSamples


def some_weights():
    generator = torch.Generator().manual_seed(0)
    sizes = [(3, 5), (128, 64, 3, 3), (0, 4), (SAMPLE_SIZE,)]
    plain = [nn.Parameter(torch.randn(size, generator=generator)) for size in sizes]
    last = torch.randn(64, 16, 3, 3, generator=generator).to(memory_format=torch.channels_last)
    gaps = torch.randn(300, 8, generator=generator)[:, :3]
    return [*plain, nn.Parameter(last), nn.Parameter(gaps), nn.Parameter(torch.randn(()).double())]


def remembered():
    weights = some_weights()
    samples = DeviceSamples(weights)
    samples.remember()
    return weights, samples


def test_nothing_is_found_where_nothing_was_written():
    weights, samples = remembered()
    samples.look()
    for weight in weights:
        weight.data.copy_(weight.data.clone())
    samples.look()
    assert samples.read(wait=True) == samples.differing() == samples.moved() == []


@pytest.mark.parametrize("place", [0, 1, 3, 4, 5, 6])
def test_other_values_are_found_now_and_told_later(place):
    weights, samples = remembered()
    weight = weights[place]
    held = weight.data.clone()
    weight.data.add_(1)
    assert samples.differing() == [weight]
    assert samples.read(wait=True) == []  # nobody has looked yet
    samples.look()
    weight.data.copy_(held)
    assert samples.differing() == []
    assert samples.read(wait=True) == [weight]
    calls = [samples.read(wait=False) for _ in range(2 * CALLS_BETWEEN_READS)]
    assert calls == [[]] * (2 * CALLS_BETWEEN_READS - 1) + [[weight]]
    samples.forget()
    assert samples.read(wait=True) == []


@pytest.mark.parametrize("channel", [0, 1, 77, 127])
def test_a_single_channel_is_found(channel):
    weights, samples = remembered()
    weights[1].data[channel].zero_()
    assert samples.differing() == [weights[1]]


def test_every_entry_of_a_small_weight_is_compared():
    weights, samples = remembered()
    for index in (0, 17, SAMPLE_SIZE - 1):
        weights[3].data[index] += 1
        assert samples.differing() == [weights[3]]
        samples.remember()


def test_a_permutation_and_nan_are_found():
    weights, samples = remembered()
    weights[1].data.copy_(weights[1].data.flip(0))
    weights[4].data.fill_(torch.nan)
    assert samples.differing() == [weights[1], weights[4]]


def test_other_memory_with_other_values_is_found_until_it_is_remembered():
    weights, samples = remembered()
    weights[1].data = weights[1].data.flip(0)
    weights[0].data = weights[0].data.clone()
    assert samples.moved() == samples.moved() == [weights[1]]
    samples.remember()
    assert samples.moved() == samples.differing() == []


def test_the_same_values_in_other_memory_are_watched_there():
    weights, samples = remembered()
    weights[1].data = weights[1].data.to(memory_format=torch.channels_last)
    weights[0].data = weights[0].data.clone()
    assert samples.moved() == samples.differing() == samples.read(wait=True) == []
    weights[1].data[5].zero_()
    assert samples.differing() == [weights[1]]


def test_an_exchange_does_not_hide_what_was_written_before_it():
    weights, samples = remembered()
    weights[1].data[5].zero_()
    weights[1].data = weights[1].data.clone()
    assert samples.moved() == []
    assert samples.read(wait=True) == [weights[1]]


def test_weights_of_several_dtypes_are_compared():
    weights = [nn.Parameter(torch.randn(9, 9).to(d)) for d in (torch.bfloat16, torch.float32)]
    samples = DeviceSamples(weights)
    samples.remember()
    assert samples.differing() == []
    weights[0].data[8, 8] += 1
    assert samples.differing() == [weights[0]]


def test_nan_that_was_remembered_is_no_other_value():
    weights, samples = remembered()
    weights[0].data[0, 0] = torch.nan
    samples.remember()
    weights[0].data = weights[0].data.clone()
    assert samples.moved() == samples.differing() == []
    samples.look()
    assert samples.read(wait=True) == []
