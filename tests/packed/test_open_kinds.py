"""Granularities and quantizers of the user's own go all the way, or are refused by name."""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    Granularity,
    Hard,
    PerChannel,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
    certify,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.packed.manifest import LayerEntry, Manifest
from binaryrelax.packed.packed_weight import pack_weight
from tests.packed.cases import inputs, same_snapshot, same_tensor, seeded, snapshot


class Runs(Granularity):
    """Groups of ``size`` weights that follow each other, wherever rows end."""

    def __init__(self, size: int):
        self.size = size

    def rows(self, w):
        return w.reshape(-1, self.size)

    def broadcast(self, scale, w):
        return scale.repeat_interleave(self.size).reshape(w.shape)


class Whole(Granularity):
    """One scale for all."""

    def rows(self, w):
        return w.flatten()[None]

    def broadcast(self, scale, w):
        return scale


class MyChannels(PerChannel):
    """A subclass that changes nothing."""


@dataclass(frozen=True)
class Own(Quantizer):
    """Nearest levels at the scale that brings the largest weight to the largest level."""

    levels: tuple = field()

    @property
    def codebook(self):
        return self.levels

    def split_rows(self, rows):
        levels = torch.tensor([float(level) for level in self.levels], dtype=rows.dtype)
        scale = rows.abs().amax(dim=1) / levels.abs().max()
        ratios = rows / torch.where(scale > 0, scale, 1)[:, None]
        return scale, levels[(ratios[..., None] - levels).abs().argmin(dim=-1)]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4, bias=False))


def trained(quantizer: Quantizer) -> tuple[nn.Module, dict]:
    """A network after a few steps, with weights in Q."""
    model = seeded(network)
    weights = select_weights(model, quantizer)
    optimizer = BinaryRelax(torch.optim.SGD(model.parameters(), lr=0.1), weights, Hard())
    for seed in range(3):
        optimizer.zero_grad()
        model(inputs(5, 6, seed=seed)).square().sum().backward()
        optimizer.step()
    return model, weights


def goes_all_the_way(quantizer: Quantizer, path) -> nn.Module:
    """Trains, packs, saves, loads and certifies; the weights stay the trained ones, bit by bit."""
    model, weights = trained(quantizer)
    expected = [model[i].weight.detach().clone() for i in (0, 2)]
    packed = pack(model, weights)
    save_packed(packed, path)
    assert certify(path).ok
    loaded = load_packed(path, seeded(network, seed=1))
    assert same_snapshot(snapshot(loaded), snapshot(packed))
    for i, weight in zip((0, 2), expected, strict=True):
        assert torch.equal(loaded[i].weight, weight)
    return loaded


@pytest.mark.parametrize(
    ("own", "ours"),
    [(Whole(), PerLayer()), (MyChannels(), PerChannel()), (Runs(2), PerGroup(2))],
    ids=repr,
)
@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_a_granularity_of_ones_own_is_written_as_ours_with_the_same_groups(
    quantizer, own, ours, tmp_path
):
    first = goes_all_the_way(replace(quantizer, granularity=own), tmp_path / "f")
    second = goes_all_the_way(replace(quantizer, granularity=ours), tmp_path / "g")
    assert [first[i].format.granularity for i in (0, 2)] == [ours, ours]
    assert same_snapshot(snapshot(first), snapshot(second))
    assert (tmp_path / "f").read_bytes() == (tmp_path / "g").read_bytes()


def test_rows_that_share_a_scale_are_stored_with_one_each():
    quantizer = Ternary(granularity=Runs(16))
    weight = quantizer.project(inputs(4, 8))
    packed = pack_weight(weight, quantizer)
    assert packed.format.granularity == PerChannel() and same_tensor(packed.unpack(), weight)
    assert packed.scale[0] == packed.scale[1] != packed.scale[2] == packed.scale[3]


def test_groups_that_no_file_can_say_are_refused_by_pack():
    model, weights = trained(Binary(granularity=Runs(16)))  # rows of 6 in the first layer
    before = snapshot(model)
    with pytest.raises(ValueError) as caught:
        pack(model, weights)
    text = str(caught.value)
    assert "pack: layer '0'" in text and "Runs(size=16)" in text and "PerGroup(size)" in text
    assert "\n" not in text and same_snapshot(snapshot(model), before)


def test_what_a_file_cannot_say_is_not_written():
    form = pack_weight(Binary().project(torch.randn(4, 6)), Binary()).format
    for own in (Runs(6), Whole(), MyChannels()):
        entry = LayerEntry("linear", replace(form, granularity=own), "bits", "0" * 64)
        with pytest.raises(ValueError, match=re.escape(repr(own))):
            Manifest({"fc": entry}, {}, {}, (), {}).to_json()


def test_training_with_a_granularity_of_ones_own_goes_on_from_a_checkpoint():
    """Its name in the checkpoint must not be an address, which another process has not."""
    model, _ = trained(Binary(granularity=Runs(2)))
    states = []
    for _ in range(2):
        weights = select_weights(model, Binary(granularity=Runs(2)))
        optimizer = BinaryRelax(torch.optim.SGD(model.parameters(), lr=0.1), weights, Hard())
        states.append(optimizer.state_dict())
    optimizer.load_state_dict(states[0])


CODEBOOKS = [
    (-1, 1),
    [-1, 0, 1],
    (-1.0, 0, 2),
    (np.float32(-0.5), np.int64(0), np.float64(1.5)),
    (-3, 1),
    (0, 1),
    (1, 2),
    (-2, -1),
    tuple(range(-20, 30)),
    (-1, -0.0, 1),
    (-2e38, 2e38),
]


@pytest.mark.parametrize("levels", CODEBOOKS, ids=repr)
def test_codebooks_of_any_numbers_go_all_the_way(levels, tmp_path):
    for granularity in (PerLayer(), PerChannel(), Runs(2)):
        quantizer = Own(levels, granularity=granularity)
        loaded = goes_all_the_way(quantizer, tmp_path / "f")
        assert loaded[0].format.codebook == tuple(map(float, levels))
        assert all(type(code) is float for code in loaded[0].format.codebook)


def test_weights_that_nearest_levels_do_not_give_back_are_found_for_asymmetric_codebooks():
    """The largest magnitude may be at a negative level."""
    quantizer = Own((-3, 1), granularity=PerChannel())
    sizes = torch.logspace(-3, 2, 500).unsqueeze(1)
    weight = torch.tensor([[-3.0, 1, 1, -3]]) * sizes
    assert same_tensor(pack_weight(weight, quantizer).unpack(), weight)


@dataclass(frozen=True)
class Faulty(Own):
    """Splits wrongly in one of several ways."""

    fault: str = field(default="", kw_only=True)

    def split_rows(self, rows):
        scale, codes = super().split_rows(rows)
        return {
            "codes": lambda: (scale, codes * scale[:, None]),
            "scale": lambda: (-scale, codes),
            "nan": lambda: (scale * torch.nan, codes),
            "dtype": lambda: (scale, codes.to(torch.int8)),
            "wide": lambda: (scale.double(), codes.double()),
            "shape": lambda: (scale, codes.flatten()),
            "scales": lambda: (scale.repeat(2), codes),
            "three": lambda: (scale, codes, codes),
            "none": lambda: None,
            "in place": lambda: (scale, rows.copy_(codes)),
            "itself": lambda: (torch.ones_like(scale), rows),
        }[self.fault]()


FAULTS = ("codes", "scale", "nan", "dtype", "wide", "shape", "scales", "three", "none",
          "in place", "itself")  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_split_is_refused_by_the_first_call_that_sees_it(fault):
    quantizer = Faulty((-1, 0, 1), fault=fault)
    model = seeded(network)
    before = snapshot(model)
    weights = select_weights(model, quantizer)
    weight = model[0].weight.detach()
    for call in (
        lambda: BinaryRelax(torch.optim.SGD(model.parameters(), lr=0.1), weights, Hard()),
        lambda: quantizer.project(weight),
        lambda: quantizer.split(weight),
        lambda: pack(model, weights),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert repr(quantizer) in str(caught.value) and "split_rows" in str(caught.value)
        assert same_snapshot(snapshot(model), before)


@dataclass(frozen=True)
class WrongOnlyAtTheEnd(Own):
    """Projects rightly, and splits what lies in Q into codes that are no levels."""

    def split_rows(self, rows):
        scale, codes = super().split_rows(rows)
        is_done = (scale[:, None] * codes == rows).all()
        return (scale / 2, codes * 2) if is_done else (scale, codes)


def test_codes_outside_the_codebook_are_refused_rather_than_packed_as_others():
    quantizer = WrongOnlyAtTheEnd((-1, 0, 1))
    weight = torch.tensor([[0.5, -0.5, 0.0, 0.5]])
    with pytest.raises(ValueError, match="gave the code 2, which is not in its codebook"):
        pack_weight(weight, quantizer)


class KeepsDimension(Own):
    """Gives scales that can be broadcast against the rows."""

    def split_rows(self, rows):
        scale, codes = super().split_rows(rows)
        return scale[:, None], codes


def test_scales_may_keep_their_dimension(tmp_path):
    for granularity in (PerLayer(), PerChannel()):
        goes_all_the_way(KeepsDimension((-1, 0, 1), granularity=granularity), tmp_path / "f")
