"""Granularities and codebooks of the user's own: wrong ones are refused before they do harm."""

import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from binaryrelax import BinaryRelax, Hard, distance, select_weights
from binaryrelax.quantizers import (
    Binary,
    Granularity,
    Levels,
    PerChannel,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
)

from .cases import random_weights, same_bits


class Halves(Granularity):
    """Two scales; the methods may be replaced by others."""

    def __init__(self, rows=None, broadcast=None):
        self._rows, self._broadcast = rows, broadcast

    def rows(self, w):
        return self._rows(w) if self._rows else w.reshape(2, -1)

    def broadcast(self, scale, w):
        if self._broadcast:
            return self._broadcast(scale, w)
        return scale.repeat_interleave(w.numel() // 2).reshape(w.shape)

    def __repr__(self):
        return "Halves()"


def refusals(quantizer: Quantizer, shape=(4, 6)) -> list[str]:
    """What each call says that meets a quantizer first; weights stay as they were."""
    layer = nn.Linear(shape[1], shape[0])
    before = layer.weight.detach().clone()
    weights = select_weights(layer, Binary())
    weights = dict.fromkeys(weights, quantizer)
    texts = []
    for call in (
        lambda: quantizer.split(layer.weight),
        lambda: quantizer.project(layer.weight),
        lambda: distance(layer.weight, quantizer),
        lambda: BinaryRelax(torch.optim.SGD(layer.parameters(), lr=0.1), weights, Hard()),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        texts.append(str(caught.value))
        assert "\n" not in texts[-1] and torch.equal(layer.weight, before)
    return texts


def columns(w):
    return w.t()


def per_column(scale, w):
    return scale[None]


WRONG_ROWS = {
    "columns": Halves(columns, per_column),
    "columns as rows": Halves(lambda w: w.t().reshape(4, 6), lambda s, w: s[:, None]),
    "backwards": Halves(lambda w: w.flip(0).reshape(2, -1)),
    "sorted": Halves(lambda w: w.reshape(2, -1).sort().values),
    "some dropped": Halves(lambda w: w[:, :4].reshape(2, -1)),
    "some twice": Halves(lambda w: w.flatten().unfold(0, 13, 11)),
    "flat": Halves(lambda w: w.flatten()),
    "three dimensions": Halves(lambda w: w.reshape(2, 2, 6)),
    "unequal": Halves(
        lambda w: nn.utils.rnn.pad_sequence([w[:1].flatten(), w[1:].flatten()], True)
    ),
    "none": Halves(lambda w: w[:0].reshape(0, 6)),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_groups_that_are_not_runs_of_the_weight_do_not_project_wrongly_in_silence(name):
    for quantizer in (Binary(granularity=WRONG_ROWS[name]), Ternary(granularity=WRONG_ROWS[name])):
        for text in refusals(quantizer):
            assert "Halves() of a weight of shape (4, 6): rows() must give" in text


WRONG_SCALES = {
    "first for all": Halves(broadcast=lambda s, w: s[0]),
    "swapped": Halves(broadcast=lambda s, w: s.flip(0).repeat_interleave(12).reshape(4, 6)),
    "interleaved": Halves(broadcast=lambda s, w: s.repeat(12).reshape(4, 6)),
}


@pytest.mark.parametrize("name", WRONG_SCALES)
def test_scales_of_other_groups_do_not_project_wrongly_in_silence(name):
    for text in refusals(Binary(granularity=WRONG_SCALES[name])):
        assert "broadcast() must give each weight the scale of the group" in text


def test_what_a_granularity_raises_is_said_in_one_line():
    for wrong in (
        Halves(lambda w: w.reshape(5, -1)),
        Halves(lambda w: None),
        Halves(broadcast=lambda s, w: s),
    ):
        for text in refusals(Binary(granularity=wrong)):
            assert "Halves() of a weight of shape (4, 6): " in text and "Error: " in text


class PairsOfChannels(PerChannel):
    def rows(self, w):
        return w.reshape(w.shape[0] // 2, -1)

    def broadcast(self, scale, w):
        return super().broadcast(scale.repeat_interleave(2), w)


class LayerByChannels(PerLayer):
    def rows(self, w):
        return PerChannel().rows(w)

    def broadcast(self, scale, w):
        return PerChannel().broadcast(scale, w)


class DoubleGroups(PerGroup):
    def rows(self, w):
        return w.reshape(-1, 2 * self.size)

    def broadcast(self, scale, w):
        return super().broadcast(scale.repeat_interleave(2), w)


@pytest.mark.parametrize(
    ("own", "base"),
    [
        (PairsOfChannels(), "PerChannel"),
        (LayerByChannels(), "PerLayer"),
        (DoubleGroups(3), "PerGroup"),
    ],
    ids=["pairs of channels", "layer", "groups"],
)
def test_a_subclass_with_other_groups_than_its_base_is_refused(own, base):
    for text in refusals(Binary(granularity=own)):
        assert f"a {base} must have the groups of one" in text
        assert "derive it from Granularity" in text


@pytest.mark.parametrize("claim", ["is_one_scale", "is_constant_in_rows"])
def test_attributes_that_its_groups_belie_are_refused(claim):
    """Kernels go by them and do not ask for rows."""
    halves = type("Halves", (Halves,), {claim: True})()
    for text in refusals(Binary(granularity=halves)):
        assert "Halves() of a weight of shape (4, 6): its attributes say that" in text
        assert "its rows() have 12" in text


def test_groups_that_reach_into_the_next_row_are_not_within_rows():
    """A sharded weight goes by that: each process would find a scale of its own."""
    halves = type("Halves", (Halves,), {"is_within_rows": True})()
    for text in refusals(Binary(granularity=halves)):
        assert "its attributes say that no two rows share a scale" in text
        assert "groups of 12 weights do not divide rows of 6" in text


class OneScale(Granularity):
    """A granularity of the user's own that says what it is."""

    is_one_scale = is_constant_in_rows = True

    def rows(self, w):
        return w.reshape(1, -1)

    def broadcast(self, scale, w):
        return scale.reshape(())


def test_attributes_that_its_groups_bear_out_are_taken():
    w = random_weights(4, 6)
    expected = Ternary(granularity=PerLayer()).project(w)
    assert same_bits(Ternary(granularity=OneScale()).project(w), expected)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 2, 2), (8,)], ids=str)
def test_a_granularity_of_ones_own_projects_group_by_group(shape):
    w = random_weights(*shape)
    for kind in (Binary, Ternary):
        projected = kind(granularity=Halves()).project(w)
        halves = [kind().project(half) for half in w.reshape(2, -1)]
        assert same_bits(projected, torch.stack(halves).reshape(shape))


class Unhashable(Halves):
    __hash__ = None


def test_a_granularity_that_cannot_be_hashed_projects():
    w = random_weights(4, 6)
    expected = Binary(granularity=Halves()).project(w)
    assert same_bits(Binary(granularity=Unhashable()).project(w), expected)


class Counting(Halves):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def rows(self, w):
        self.calls += 1
        return super().rows(w)


def test_a_step_asks_a_granularity_no_more_than_it_must():
    granularity, layer = Counting(), nn.Linear(6, 4)
    weights = select_weights(layer, Binary(granularity=granularity))
    optimizer = BinaryRelax(torch.optim.SGD(layer.parameters(), lr=0.1), weights, Hard())
    layer.weight.grad = torch.zeros(4, 6)
    optimizer.step()
    before = granularity.calls
    optimizer.step()
    assert granularity.calls == before + 1


@dataclass(frozen=True)
class Own(Quantizer):
    """Any codebook, with a projection that would do for any."""

    given: object = field()

    @property
    def codebook(self):
        return self.given

    def split_rows(self, rows):
        return rows.abs().mean(dim=1), torch.ones_like(rows)


WRONG_CODEBOOKS = [
    (1, -1), (-1, 0, 0, 1), (-1, math.nan, 1), (-1, math.inf), (1,), (), None, 3, "01", {-1, 1},
    (-1, "1"), (-1, None), (-1, 1j), (False, True), (2**53, 2**53 + 1), (-1, 10**400),
    torch.tensor([-1.0, 1.0]), ((-1, 1),),
]  # fmt: skip


@pytest.mark.parametrize("codebook", WRONG_CODEBOOKS, ids=lambda c: repr(c)[:30])
def test_wrong_codebooks_are_refused_by_the_first_call_that_sees_them(codebook):
    quantizer = Own(codebook)
    for text in refusals(quantizer):
        assert f"{quantizer!r}: its codebook is" in text
        assert "each larger than the one before" in text


def test_negative_codes_that_do_not_fit_into_the_dtype_are_refused():
    with pytest.raises(ValueError, match=r"code 70000 does not fit into torch\.float16"):
        Own((-70000, 1)).project(torch.ones(2, 2).half())


class AsList(Levels):
    @property
    def codebook(self):
        return list(super().codebook)


@pytest.mark.parametrize("magnitudes", [(1,), (0, 1), (1, 2), (0, 1, 3)])
def test_codebooks_that_are_lists_project_as_tuples_do(magnitudes):
    w, listed, plain = random_weights(4, 30), AsList(magnitudes), Levels(magnitudes)
    assert same_bits(listed.project(w), plain.project(w))
    assert listed == plain and hash(listed) == hash(plain)
