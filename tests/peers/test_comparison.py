"""The comparison with networks of other libraries notices what is wrong."""

import pytest
import torch
from torch import nn

from binaryrelax import Binary, load_packed, pack
from tests.peers import comparison
from tests.peers.comparison import compare
from tests.peers.network import Network
from tests.peers.outputs import is_rounding


class Doubling(nn.Linear):
    """Whoever packs it as a plain layer halves its output."""

    def forward(self, x):
        return 2 * super().forward(x)


class Tied(nn.Module):
    """A language model as small as it can be."""

    def __init__(self, last=nn.Linear):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.norm = nn.BatchNorm1d(16)
        self.inner = last(16, 16)
        self.last = nn.Linear(16, 40)
        self.last.weight = self.embedding.weight

    def forward(self, tokens):
        return self.last(self.inner(self.norm(self.embedding(tokens))))


def tokens():
    return {"tokens": torch.arange(12)}


def row_of(folder, make=Tied):
    return compare(Network("tied", "tied", "torch", make, tokens), Binary(), folder)


def test_a_network_agrees(tmp_path):
    row = row_of(tmp_path)
    assert (row["status"], row["refusals"], row["warnings"]) == ("agrees", [], [])
    assert row["weights"] == 40 * 16 + 2 * 16 + 17 * 16 + 40
    assert row["packed_weights"] == 40 * 16 + 16 * 16
    assert set(row["loads"].values()) == {"equal"}
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_cannot_be_packed_is_kept_float_and_told_of(tmp_path):
    row = row_of(tmp_path, lambda: Tied(last=Doubling))
    assert (row["status"], row["keep_float"]) == ("agrees", ["inner"])
    assert len(row["refusals"]) == 1 and "Doubling" in row["refusals"][0]
    assert row["packed_weights"] == 40 * 16


def test_weights_that_do_not_matter_prove_nothing(tmp_path):
    class Idle(Tied):
        def forward(self, tokens):
            self.inner(self.norm(self.embedding(tokens)))
            return self.last(self.norm(self.embedding(tokens)))

    assert row_of(tmp_path, Idle)["status"] == (
        "DIFFERS: nothing is shown: the output does not depend on inner.weight"
    )


@pytest.mark.parametrize(
    ("difference", "errors", "expected"),
    [
        (0.0, (0.5, 0.5), True),
        (0.02, (0.5, 0.5), True),  # a few units in the last place
        (0.1, (0.02, 0.01), True),
        (0.1, (0.06, 0.01), False),
        (0.1, (0.2, 0.2), False),  # both are as far from the truth, which tells nothing
        (float("inf"), (float("inf"), 0.01), False),
    ],
)
def test_what_counts_as_rounding_in_bfloat16(difference, errors, expected):
    assert is_rounding(difference, errors, torch.bfloat16) == expected


@pytest.mark.parametrize("part", ["bias", "scale"])
def test_a_changed_layer_is_a_difference(part, tmp_path, monkeypatch):
    def damaged(model, weights):
        packed = pack(model, weights)
        getattr(packed.inner, part).data.mul_(1.1)
        return packed

    monkeypatch.setattr(comparison, "pack", damaged)
    status = row_of(tmp_path)["status"]
    assert status.startswith("DIFFERS: float32 by torch: ") and "bfloat16 by torch" in status


def test_an_untied_weight_is_a_difference(tmp_path, monkeypatch):
    def untied(model, weights):
        packed = pack(model, weights)
        packed.last.codes = packed.last.codes.clone()
        return packed

    monkeypatch.setattr(comparison, "pack", untied)
    status = row_of(tmp_path)["status"]
    assert "packed: embedding.weight and last.weight are no longer tied" in status


def test_what_loading_leaves_behind_is_a_difference(tmp_path, monkeypatch):
    def half_loaded(path, model):
        loaded = load_packed(path, model)
        loaded.norm.bias.data.add_(1)
        return loaded

    monkeypatch.setattr(comparison, "load_packed", half_loaded)
    assert "loaded (fresh): other output" in row_of(tmp_path)["status"]


def test_a_crash_is_a_difference(tmp_path, monkeypatch):
    def breaking(model, weights):
        packed = pack(model, weights)
        packed.inner.forward = lambda x: x.float() @ torch.ones(3)
        return packed

    monkeypatch.setattr(comparison, "pack", breaking)
    assert "float32: RuntimeError" in row_of(tmp_path)["status"]
