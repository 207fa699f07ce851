import numpy as np
import pytest
import torch
from lab.tests.support.errors import one_line
from lab.tests.support.texts import text_of

from binaryrelax_lab.language import Windows, training_windows, windows

CPU = torch.device("cpu")


@pytest.mark.parametrize("num_tokens", [9, 10, 15, 16, 17, 100, 1000])
def test_windows_lie_inside_the_text(num_tokens):
    offsets = training_windows(text_of(range(num_tokens)), count=300, length=8, seed=0, epoch=3)
    assert offsets.shape == (300,) and offsets.dtype == np.int64
    assert offsets.min() >= 0 and offsets.max() + 8 < num_tokens


def test_all_tokens_are_seen_equally_often_whatever_an_epoch_is():
    text, times = text_of(range(1001)), np.zeros(1001)
    for epoch in range(30):  # 30 x 33 windows: 8 passes of 124, all but two windows
        for start in training_windows(text, count=33, length=8, seed=1, epoch=epoch):
            times[start + 1 : start + 9] += 1
    inside = times[8:-16]
    assert inside.min() >= 7 and inside.max() <= 8


def test_windows_depend_on_seed_and_epoch_alone():
    def drawn(seed, epoch):
        found = training_windows(text_of(range(999)), count=50, length=8, seed=seed, epoch=epoch)
        return found.tolist()

    assert drawn(0, 1) == drawn(0, 1)
    assert drawn(0, 1) != drawn(1, 0)
    assert len({tuple(drawn(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(ValueError, match=r"some.txt has 8 tokens") as error:
        training_windows(text_of(range(8)), count=1, length=8, seed=0, epoch=0)
    one_line(error)


@pytest.mark.parametrize("num_tokens", [2, 8, 9, 10, 16, 17, 18, 100])
def test_every_token_but_the_first_is_predicted_once(num_tokens):
    text = text_of(range(num_tokens))
    offsets, mask = windows.test_windows(text, 8)
    inputs, targets = Windows(text, 8, CPU).take(offsets)
    assert targets[mask].tolist() == list(range(1, num_tokens))
    assert torch.equal(inputs[mask] + 1, targets[mask])


def test_windows_hold_the_largest_token():
    inputs, targets = Windows(text_of([0, 65535, 40000, 1]), 3, CPU).take(torch.tensor([0]))
    assert inputs.tolist() == [[0, 65535, 40000]]
    assert targets.tolist() == [[65535, 40000, 1]]
    assert inputs.dtype == targets.dtype == torch.int64
