"""Whether a file holds the very layers of a model, or of another file: `certify(..., against)`."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    PackedFileError,
    PerChannel,
    PerGroup,
    Ternary,
    Uniform,
    certify,
    pack,
    save_packed,
)
from tests.packed.cases import QUANTIZERS, Tied, packed_copy, small_network


def saved(path, quantizer=Ternary(), make=small_network, dense=True):  # noqa: B008
    plain, packed = packed_copy(make, quantizer)
    save_packed(packed, path, dense=dense)
    return plain, packed


def assert_differs(path, against, what):
    found = certify(path, against=against)
    assert not found.ok and "\n" not in found.reason
    assert str(path) in found.reason and what in found.reason
    assert certify(path).ok and found.layers == certify(path).layers


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_a_file_equals_its_model_and_its_copy_in_another_layout(quantizer, tmp_path):
    _, packed = saved(tmp_path / "f", quantizer)
    save_packed(packed, tmp_path / "g", dense=False)
    for against in (packed, nn.Sequential(packed)[0], tmp_path / "f", str(tmp_path / "g")):
        assert certify(tmp_path / "f", against=against) == certify(tmp_path / "f")
        assert certify(tmp_path / "g", against=against).ok


def test_compiled_models_are_compared_under_plain_names(tmp_path):
    _, packed = saved(tmp_path / "f")
    packed[7] = torch.compile(packed[7], backend="eager")
    assert certify(tmp_path / "f", against=torch.compile(packed, backend="eager")).ok


def test_one_code_is_seen(tmp_path):
    _, packed = saved(tmp_path / "f")
    packed[3].codes[2, 1] ^= 1
    assert_differs(tmp_path / "f", packed, "layer '3' has other codes")


def test_one_bit_of_a_scale_is_seen(tmp_path):
    _, packed = saved(tmp_path / "f", Binary(granularity=PerChannel()))
    packed[7].scale.view(torch.int32)[2] ^= 1
    assert_differs(tmp_path / "f", packed, "layer '7' has other scales")
    packed[7].scale.view(torch.int32)[2] ^= 1
    assert certify(tmp_path / "f", against=packed).ok


def test_other_levels_with_the_same_codes_are_seen(tmp_path):
    _, packed = saved(tmp_path / "f", Binary())
    packed[0].format = replace(packed[0].format, codebook=(0.0, 1.0))
    assert_differs(tmp_path / "f", packed, "layer '0' has other levels")


@pytest.mark.parametrize(
    ("quantizer", "what"),
    [
        (Binary(), "levels"),
        (Uniform(bits=3), "levels"),
        (Ternary(granularity=PerGroup(2)), "codes"),
    ],
)
def test_other_quantizers_are_seen(quantizer, what, tmp_path):
    saved(tmp_path / "f")
    saved(tmp_path / "g", quantizer)
    assert_differs(tmp_path / "f", tmp_path / "g", f"layer '0' has other {what}")
    assert_differs(tmp_path / "g", tmp_path / "f", "layer '0' has other ")


def test_other_sizes_are_seen(tmp_path):
    saved(tmp_path / "f", make=lambda: nn.Sequential(nn.Linear(6, 4)))
    saved(tmp_path / "g", make=lambda: nn.Sequential(nn.Linear(4, 6)))
    assert_differs(tmp_path / "f", tmp_path / "g", "layer '0' has other sizes")


def test_layers_that_only_one_of_both_has_are_named(tmp_path):
    saved(tmp_path / "few", make=lambda: nn.Sequential(nn.Linear(6, 6)))
    saved(tmp_path / "many", make=lambda: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2)))
    assert_differs(tmp_path / "few", tmp_path / "many", "layer '1' is not in the file")
    assert_differs(tmp_path / "many", tmp_path / "few", "'1' is not in what it is compared with")


def test_layers_that_share_a_weight_are_both_compared(tmp_path):
    _, tied = saved(tmp_path / "f", make=Tied)
    assert certify(tmp_path / "f", against=tied).ok
    tied.second.codes = tied.second.codes.clone()
    tied.second.codes[1, 0] ^= 1
    assert_differs(tmp_path / "f", tied, "layer 'second' has other codes")


def test_a_matrix_equals_a_convolution_of_one_pixel(tmp_path):
    _, matrix = saved(tmp_path / "matrix", make=lambda: nn.Sequential(nn.Linear(6, 4)))
    convolution, _ = packed_copy(lambda: nn.Sequential(nn.Conv2d(6, 4, 1)), Ternary())
    with torch.no_grad():
        convolution[0].weight.copy_(matrix[0].weight[:, :, None, None])
    save_packed(pack(convolution, {convolution[0].weight: Ternary()}), tmp_path / "pixel")
    assert certify(tmp_path / "pixel", against=tmp_path / "matrix").ok
    assert certify(tmp_path / "matrix", against=tmp_path / "pixel").ok


def test_there_must_be_something_to_compare_with(tmp_path):
    plain, packed = saved(tmp_path / "f")
    with pytest.raises(ValueError, match="no layer of Sequential is packed"):
        certify(tmp_path / "f", against=plain)
    with pytest.raises(FileNotFoundError):
        certify(tmp_path / "f", against=tmp_path / "missing")
    content = bytearray((tmp_path / "f").read_bytes())
    content[-1] ^= 1
    (tmp_path / "g").write_bytes(content)
    with pytest.raises(PackedFileError, match="g: layer"):
        certify(tmp_path / "f", against=tmp_path / "g")
    # A file that is broken itself says so; there is nothing to compare.
    found = certify(tmp_path / "g", against=packed)
    assert not found.ok and "the digest differs" in found.reason
