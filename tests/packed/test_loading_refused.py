"""Files that are no packed networks, or of another one, leave the model as it was."""

import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from binaryrelax import (
    Binary,
    PackedFileError,
    Ternary,
    certify,
    load_packed,
    save_packed,
)
from tests.packed.cases import (
    packed_copy,
    same_snapshot,
    small_network,
    snapshot,
)


def refused(path, model) -> str:
    """Why the file is refused; the model must stay as it was."""
    before = snapshot(model)
    with pytest.raises(PackedFileError) as caught:
        load_packed(path, model)
    assert same_snapshot(snapshot(model), before)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(path))
    return text


@pytest.fixture
def file(tmp_path):
    """A packed small network."""
    path = tmp_path / "net.safetensors"
    save_packed(packed_copy(small_network, Ternary())[1], path)
    return path


def without(model, name):
    del model._modules[name]
    return model


def with_buffer(model):
    model.register_buffer("more", torch.zeros(2))
    return model


WRONG_MODELS = {
    "smaller layer": lambda: nn.Sequential(nn.Conv2d(2, 5, 3)),
    "empty": nn.Sequential,
    "layer missing": lambda: without(small_network(), "7"),
    "norm missing": lambda: without(small_network(), "1"),
    "more buffers": lambda: with_buffer(small_network()),
    "other kind": lambda: nn.Sequential(nn.Linear(2, 6), *list(small_network())[1:]),
    "other size": lambda: nn.Sequential(*list(small_network())[:7], nn.Linear(16, 4)),
    "other norm": lambda: nn.Sequential(
        *list(small_network())[:4], nn.BatchNorm2d(4, affine=False), *list(small_network())[5:]
    ),
    "bias more": lambda: nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), *list(small_network())[1:]),
    "bias less": lambda: nn.Sequential(*list(small_network())[:7], nn.Linear(16, 3, bias=False)),
    "not packable": lambda: nn.Sequential(
        *list(small_network())[:7], nn.LazyLinear(3)
    ),
    "transposed": lambda: nn.Sequential(nn.ConvTranspose2d(6, 2, 3), *list(small_network())[1:]),
    "layer itself": lambda: nn.Linear(16, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_MODELS)
def test_another_architecture_is_refused_and_stays_as_it_was(name, file):
    if name == "not packable":
        with pytest.raises(PackedFileError, match="layer '7'"):
            load_packed(file, WRONG_MODELS[name]())
    else:
        refused(file, WRONG_MODELS[name]().train())


def test_a_model_that_shares_a_layer_is_not_one_that_has_two(tmp_path):
    save_packed(packed_copy(lambda: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), Ternary())[1],
                tmp_path / "two")  # fmt: skip
    refused(tmp_path / "two", nn.Sequential(*[nn.Linear(6, 6)] * 2))
    save_packed(packed_copy(lambda: nn.Sequential(*[nn.Linear(6, 6)] * 2), Ternary())[1],
                tmp_path / "one")  # fmt: skip
    refused(tmp_path / "one", nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)))


class SharedFloats(nn.Module):
    """A packed layer beside two normalizations that may share what they learn."""

    def __init__(self, shared: bool):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.first, self.second = nn.LayerNorm(4), nn.LayerNorm(4)
        nn.init.normal_(self.first.weight)
        if shared:
            self.second.weight = self.first.weight


def test_a_model_that_shares_tensors_is_not_filled_with_two_different_ones(tmp_path):
    save_packed(packed_copy(lambda: SharedFloats(False), Binary())[1], tmp_path / "f")
    refused(tmp_path / "f", SharedFloats(True))
    save_packed(packed_copy(lambda: SharedFloats(True), Binary())[1], tmp_path / "g")
    for shared in (True, False):
        loaded = load_packed(tmp_path / "g", SharedFloats(shared))
        assert torch.equal(loaded.first.weight, loaded.second.weight)


def test_a_missing_file_is_named(tmp_path):
    for read in (certify, lambda path: load_packed(path, small_network())):
        with pytest.raises(FileNotFoundError, match="none"):
            read(tmp_path / "none.safetensors")


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", "/dev/null"):
        refused(path, small_network())


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 7, b"\0" * 8, b"\xff" * 100, b"PK\3\4", b"{}", b"\2\0\0\0\0\0\0\0{}"]
)
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "f").write_bytes(content)
    refused(tmp_path / "f", small_network())


def test_a_safetensors_file_without_manifest_is_refused(tmp_path):
    save_file(small_network().state_dict(), tmp_path / "f")
    assert "no manifest; make one with save_packed" in refused(tmp_path / "f", small_network())


def test_pickles_are_refused_and_not_run(tmp_path):
    torch.save(small_network().state_dict(), tmp_path / "f")
    refused(tmp_path / "f", small_network())


def test_a_plain_file_does_not_load_into_a_folded_model(file):
    _, folded = packed_copy(small_network, Ternary(), fold_batchnorm=True)
    assert "another architecture" in refused(file, folded)
