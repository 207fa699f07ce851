"""The certificate says of a file what counting by hand says."""

import hashlib
import json
import math

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from binaryrelax import (
    Binary,
    PackedFileError,
    PerChannel,
    PerGroup,
    Ternary,
    Uniform,
    certify,
    save_packed,
)
from tests.packed.cases import QUANTIZERS, Tied, Twice, packed_copy, small_network

LAYERS = {"0": "conv2d", "3": "conv2d", "7": "linear"}


def saved(path, quantizer, make=small_network, dense=True, **options):
    plain, packed = packed_copy(make, quantizer, **options)
    save_packed(packed, path, dense=dense)
    return plain


def distinct_by_hand(weight, granularity) -> int:
    groups = granularity.rows(weight.detach()).tolist()
    return max(len(set(group)) for group in groups)


def row_bytes(length: int, quantizer, dense: bool) -> int:
    if dense and quantizer.codebook == (-1, 0, 1):
        return math.ceil(length / 5)
    return math.ceil(length * quantizer.bits / 8)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_every_figure_is_what_counting_gives(quantizer, dense, tmp_path):
    plain = saved(tmp_path / "f", quantizer, dense=dense)
    found = certify(tmp_path / "f")
    assert found.ok and found.reason is None
    assert {layer.name: layer.kind for layer in found.layers} == LAYERS
    for layer in found.layers:
        weight = plain.get_submodule(layer.name).weight
        num_scales = quantizer.granularity.rows(weight).shape[0]
        length = weight[0].numel()
        num_bytes = len(weight) * row_bytes(length, quantizer, dense) + 4 * num_scales
        assert layer.shape == tuple(weight.shape) and layer.codebook == quantizer.codebook
        assert layer.scales == num_scales and layer.num_bytes == num_bytes
        assert layer.distinct_values == distinct_by_hand(weight, quantizer.granularity)
        assert layer.distinct_values <= len(quantizer.codebook)
        assert layer.zeros == pytest.approx(float((weight == 0).double().mean()))
        assert layer.bits_per_weight == pytest.approx(8 * num_bytes / weight.numel())
        assert layer.saving == pytest.approx(32 / layer.bits_per_weight)


def test_the_whole_file_is_counted(tmp_path):
    plain = saved(tmp_path / "f", Ternary(), keep_float=("7",))
    found = certify(tmp_path / "f")
    floats = {
        n: t.numel() for n, t in plain.state_dict().items() if n not in ("0.weight", "3.weight")
    }
    assert found.float_tensors == floats
    assert found.float32_bytes == sum(t.nbytes for t in plain.state_dict().values())
    assert found.file_bytes == (tmp_path / "f").stat().st_size
    assert found.saving == found.float32_bytes / found.file_bytes
    num_packed = plain[0].weight.numel() + plain[3].weight.numel()
    assert found.num_packed == num_packed
    assert found.packed_share == pytest.approx(num_packed / (num_packed + sum(floats.values())))


def test_digests_are_those_of_the_stored_tensors(tmp_path):
    saved(tmp_path / "f", Ternary())
    stored = load_file(tmp_path / "f")
    for layer in certify(tmp_path / "f").layers:
        content = b""
        for part in ("codes", "scale"):
            tensor = stored[f"{layer.name}.{part}"]
            content += f"{tensor.dtype} {tuple(tensor.shape)};".encode() + tensor.numpy().tobytes()
        assert layer.digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("make", [Tied, Twice, lambda: nn.Sequential(*[nn.Linear(6, 6)] * 3)])
def test_what_is_shared_is_counted_once(make, tmp_path):
    plain = saved(tmp_path / "f", Ternary(), make)
    expected = 4 * sum(p.numel() for p in plain.parameters())  # each once
    assert certify(tmp_path / "f").float32_bytes == expected


def test_folded_networks_are_certified_with_one_scale_per_channel(tmp_path):
    saved(tmp_path / "f", Binary(), fold_batchnorm=True)
    found = certify(tmp_path / "f")
    assert found.ok and [layer.scales for layer in found.layers] == [6, 4, 1]
    assert all(layer.distinct_values <= 2 for layer in found.layers)
    assert not any("running" in name for name in found.float_tensors)


def test_a_layer_of_zeros_is_certified(tmp_path):
    def make():
        model = nn.Sequential(nn.Linear(5, 3))
        nn.init.zeros_(model[0].weight)
        return model

    for quantizer in (Binary(), Ternary(), Uniform(bits=3, granularity=PerGroup(1))):
        saved(tmp_path / "f", quantizer, make)
        (layer,) = certify(tmp_path / "f").layers
        assert (layer.distinct_values, layer.zeros) == (1, 1.0)


def change(path, name, edit):
    """Changes a stored tensor and nothing else."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    tensors[name] = edit(tensors[name].clone())
    save_file(tensors, path, metadata)


@pytest.mark.parametrize(
    ("name", "edit", "culprit"),
    [
        ("3.codes", lambda t: t.flip(0), "layer '3'"),
        ("3.codes", lambda t: t.bitwise_xor(1), "layer '3'"),
        ("7.scale", lambda t: t * 2, "layer '7'"),
        ("7.scale", lambda t: t.double(), "layer '7'"),
        ("0.scale", lambda t: torch.cat([t, t]), "layer '0'"),
        ("7.bias", lambda t: t + 1, "tensor '7.bias'"),
        ("1.running_mean", lambda t: -t, "tensor '1.running_mean'"),
        ("1.num_batches_tracked", lambda t: t + 1, "tensor '1.num_batches_tracked'"),
        ("1.weight", lambda t: t.half(), "tensor '1.weight'"),
        ("1.weight", lambda t: t.unsqueeze(0), "tensor '1.weight'"),
    ],
)
@pytest.mark.parametrize("quantizer", [Binary(granularity=PerChannel()), Ternary()], ids=repr)
def test_one_changed_tensor_is_named(name, edit, culprit, quantizer, tmp_path):
    saved(tmp_path / "f", quantizer)
    change(tmp_path / "f", name, edit)
    found = certify(tmp_path / "f")
    assert not found.ok and culprit in found.reason and "\n" not in found.reason
    sound = [layer.name for layer in found.layers]
    expected = {"0": [], "3": ["0"], "7": ["0", "3"]}
    assert sound == (expected[name[0]] if culprit.startswith("layer") else ["0", "3", "7"])


def test_layers_come_in_the_order_of_the_network(tmp_path):
    def make():
        return nn.Sequential(*(nn.Linear(3, 3) for _ in range(12)))

    saved(tmp_path / "f", Binary(), make)
    assert [layer.name for layer in certify(tmp_path / "f").layers] == [str(n) for n in range(12)]


def test_tensors_that_are_missing_or_too_many_leave_nothing_to_certify(tmp_path):
    saved(tmp_path / "f", Ternary())
    with safe_open(tmp_path / "f", "pt") as file:
        metadata = file.metadata()
    tensors = load_file(tmp_path / "f")
    for changed in (
        {n: t for n, t in tensors.items() if n != "7.bias"},
        {n: t for n, t in tensors.items() if n != "0.scale"},
        {**tensors, "more": torch.zeros(1)},
    ):
        save_file(changed, tmp_path / "f", metadata)
        with pytest.raises(PackedFileError, match="other tensors than its manifest says"):
            certify(tmp_path / "f")


def test_what_was_said_about_the_network_is_given_back(tmp_path):
    _, packed = packed_copy(small_network, Binary())
    save_packed(packed, tmp_path / "f", about={"recipe": "x\ny", "ü": ""})
    assert certify(tmp_path / "f").about == {"recipe": "x\ny", "ü": ""}
    for about in ({"a": 1}, {1: "a"}, {"a": None}):
        with pytest.raises(ValueError, match="about"):
            save_packed(packed, tmp_path / "g", about=about)
    assert not (tmp_path / "g").exists()


def test_the_manifest_is_readable_by_others(tmp_path):
    saved(tmp_path / "f", Uniform(bits=3))
    with safe_open(tmp_path / "f", "pt") as file:
        content = json.loads(file.metadata()["binaryrelax"])
    assert content["version"] == 1 and set(content["layers"]) == set(LAYERS)
    layer = content["layers"]["0"]
    assert layer["shape"] == [6, 2, 3, 3] and layer["codebook"] == [-3, -2, -1, 0, 1, 2, 3]
    assert (layer["granularity"], layer["dtype"], layer["layout"]) == ("layer", "float32", "bits")
