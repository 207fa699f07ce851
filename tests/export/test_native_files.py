"""Files of networks: what they hold, what they are calibrated by, and that they are certified."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from binaryrelax import (
    Binary,
    PackedFileError,
    PerChannel,
    Ternary,
    certify,
    export_native,
    load_packed,
    save_packed,
)
from binaryrelax.export.native import checked_program
from tests.export.exported import WEIGHTS, Sum, images, packed_network, packed_with
from tests.export.native_cases import (
    Between,
    RoundedInterpreter,
    float_and_packed,
    largest_error,
    loaded,
    maps,
    native,
    outputs,
    vectors,
)
from tests.packed.cases import Residual, packed_copy, same_snapshot, seeded, small_network, snapshot


def residual():
    return float_and_packed(Residual, Ternary())[1]


def manifest_of(path):
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["binaryrelax"])


# What is in them


@pytest.mark.parametrize("options", [{"mode": "exact"}, {}, {"calibration": maps(4, 2)}], ids=str)
def test_a_network_gives_the_same_file_every_time(options, tmp_path):
    for name in ("first", "second"):
        export_native(residual(), maps(2, 2), tmp_path / name, about={"a": "b"}, **options)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_another_process_writes_the_same_file(tmp_path):
    code = (
        "import sys; from tests.export.test_native_files import *;"
        "export_native(residual(), maps(2, 2), sys.argv[1], calibration=maps(4, 2))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, tmp_path / "other"], env=environment, check=True)
    export_native(residual(), maps(2, 2), tmp_path / "own", calibration=maps(4, 2))
    assert (tmp_path / "own").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_file_that_is_there_is_replaced(tmp_path):
    (tmp_path / "net.brx").write_bytes(b"an older network")
    assert loaded(residual(), maps(2, 2), tmp_path).mode == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["net.brx"]


def test_what_was_said_about_the_network_is_given_back(tmp_path):
    about = {"recipe": "x\ny", "ü": ""}
    network = loaded(residual(), maps(2, 2), tmp_path, about=about)
    assert network.about == about == certify(tmp_path / "net.brx").about


def test_normalizations_and_activations_are_parts_of_layers(tmp_path):
    _, packed = packed_copy(small_network, Binary())
    loaded(packed, torch.zeros(2, 2, 6, 6), tmp_path)
    program = manifest_of(tmp_path / "net.brx")["program"]
    assert [op["op"] for op in program["operations"]] == ["conv", "conv", "flatten", "linear"]
    assert [op["name"] for op in program["operations"]] == ["0", "3", "7.flatten", "7"]
    assert all("factor" in op and "bias" in op for op in program["operations"][:2])
    assert "factor" not in program["operations"][3]


def test_one_bit_resnet18_takes_less_than_1_5_mb(tmp_path):
    export_native(packed_network("resnet18", Binary()), images(1), tmp_path / "net.brx")
    assert (tmp_path / "net.brx").stat().st_size < 1_500_000
    assert native.load(tmp_path / "net.brx").nbytes < 3_000_000  # weights stay packed


def test_a_file_runs_without_torch(tmp_path):
    expected = outputs(loaded(residual(), maps(2, 2), tmp_path), maps(3, 2))[0]
    code = (
        "import sys, numpy as np; sys.modules['torch'] = None; import binaryrelax_native as n;"
        "x = np.frombuffer(sys.stdin.buffer.read(), np.float32).reshape(3, 2, 9, 8);"
        "sys.stdout.buffer.write(n.load(sys.argv[1], threads=1)(x).tobytes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "net.brx"],
        input=maps(3, 2).numpy().tobytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == expected.numpy().tobytes()


# Certificates


@pytest.mark.parametrize("fold_batchnorm", [True, False])
@pytest.mark.parametrize("quantizer", WEIGHTS, ids=repr)
def test_files_hold_the_weights_of_the_model_bit_for_bit(quantizer, fold_batchnorm, tmp_path):
    def make():
        model = nn.Sequential(nn.Conv2d(5, 9, 3), nn.BatchNorm2d(9), nn.ReLU(), nn.Conv2d(9, 9, 1))
        return model

    _, packed = float_and_packed(make, quantizer, fold_batchnorm=fold_batchnorm)
    export_native(packed, maps(2, 5), tmp_path / "net.brx")
    save_packed(packed, tmp_path / "net.safetensors")
    found = certify(tmp_path / "net.brx")
    assert found.ok and [layer.name for layer in found.layers] == ["0", "3"]
    assert found.layers == certify(tmp_path / "net.safetensors").layers
    for against in (packed, tmp_path / "net.safetensors", tmp_path / "net.brx"):
        assert certify(tmp_path / "net.brx", against=against) == found
    assert certify(tmp_path / "net.safetensors", against=tmp_path / "net.brx").ok
    packed[3].codes[4, 0] ^= 1
    against_another = certify(tmp_path / "net.brx", against=packed)
    assert not against_another.ok and "layer '3' has other codes" in against_another.reason


def test_a_changed_tensor_is_named_by_the_certificate_and_the_runtime(tmp_path):
    loaded(residual(), maps(2, 2), tmp_path)
    content = bytearray((tmp_path / "net.brx").read_bytes())
    content[-1] ^= 1
    (tmp_path / "net.brx").write_bytes(content)
    certificate = certify(tmp_path / "net.brx")
    assert not certificate.ok and "the digest differs" in certificate.reason
    with pytest.raises(ValueError, match="digest"):
        native.load(tmp_path / "net.brx")


def test_files_of_the_one_kind_are_not_loaded_as_the_other(tmp_path):
    model = residual()
    loaded(model, maps(2, 2), tmp_path)
    fresh = seeded(Residual)
    before = snapshot(fresh)
    with pytest.raises(PackedFileError, match=r"net\.brx: .* binaryrelax_native\.load"):
        load_packed(tmp_path / "net.brx", fresh)
    assert same_snapshot(snapshot(fresh), before)
    save_packed(model, tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match=r"net\.safetensors: .*export_native"):
        native.load(tmp_path / "net.safetensors")


# Calibration


def ranges_in(path):
    return manifest_of(path)["program"]["ranges"]


def test_ranges_are_found_from_the_images(tmp_path):
    _, packed = float_and_packed(lambda: Between(F.relu), Binary())
    x = maps(40)
    export_native(packed, x[:2], tmp_path / "net.brx", calibration=x)
    with torch.no_grad():
        first = packed.first(x).relu()
        values = [x, first, packed.second(first)]
    for (low, high), value in zip(ranges_in(tmp_path / "net.brx"), values, strict=True):
        assert float(value.min()) - 1e-6 <= low <= 0 < high <= float(value.max()) + 1e-6
        inside = (value >= low) & (value <= high)
        assert inside.float().mean() > 0.999
    export_native(packed, x[:2], tmp_path / "net.brx")
    assert ranges_in(tmp_path / "net.brx") == [None] * 3


def test_images_may_come_in_any_way(tmp_path):
    _, packed = float_and_packed(lambda: Between(F.relu), Binary())
    x = maps(37)
    ways = {
        "tensor": x,
        "batches": [x[:30], x[30:]],
        "one by one": (image[None] for image in x),
        "tuples": [(batch,) for batch in x.split(5)],
        "double": x.double(),
        "with gradients": x.clone().requires_grad_(),
    }
    for name, way in ways.items():
        export_native(packed, x[:2], tmp_path / name, calibration=way)
    contents = {(tmp_path / name).read_bytes() for name in ways}
    found = [ranges_in(tmp_path / name) for name in ways]
    assert all(
        value == pytest.approx(first, rel=1e-5)
        for ranges in found
        for value, first in zip(ranges, found[0], strict=True)
    )
    assert len(contents) <= 2  # sums of other batches may be rounded otherwise


def test_images_of_other_sizes_calibrate_too(tmp_path):
    _, packed = float_and_packed(lambda: Between(F.relu), Binary())
    sizes = [maps(3), maps(2, 3, 20, 11)]
    export_native(packed, maps(2), tmp_path / "net.brx", calibration=sizes)
    least = min(float(x.min()) for x in sizes)
    assert ranges_in(tmp_path / "net.brx")[0][0] == pytest.approx(least, rel=0.1)


def chain():
    """Layers of which each reads what the one before has written; and the mean of all pixels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 20, 3, stride=2), nn.ReLU6(),
        nn.Conv2d(20, 20, 3, padding=1, groups=20), nn.Hardswish(), nn.Conv2d(20, 9, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(9, 5),
    )  # fmt: skip


@pytest.mark.parametrize("quantizer", [Binary(), Ternary(granularity=PerChannel())], ids=repr)
def test_calibrated_layers_compute_as_the_reference_says(quantizer, tmp_path):
    _, packed = float_and_packed(chain, quantizer)
    x = maps(8)
    network = loaded(packed, x[:2], tmp_path, calibration=x[:6])
    ranges = ranges_in(tmp_path / "net.brx")
    reference = RoundedInterpreter(checked_program(packed, x[:2]), ranges)(x)
    assert largest_error(outputs(network, x), reference) < 0.01


@pytest.mark.parametrize("wide", [0, 1])
def test_the_narrower_of_two_sums_is_rounded(wide, tmp_path):
    model = seeded(lambda: nn.ModuleList(nn.Conv2d(3, 4, 3, bias=False) for _ in range(2)))
    with torch.no_grad():
        model[wide].weight.mul_(100)
    network = Twice(packed_with(dict.fromkeys(model, Binary()), model))
    x = maps(8)
    fast = loaded(network, x[:2], tmp_path, calibration=x)
    ranges = ranges_in(tmp_path / "net.brx")
    reference = RoundedInterpreter(checked_program(network, x[:2]), ranges)(x)
    low, high = ranges[1 + 1 - wide]  # the input comes first
    error = (outputs(fast, x)[0] - reference[0]).square().mean().sqrt()
    assert float(error) < (high - low) / 255


class Shortcuts(nn.Module):
    """A layer and two blocks, whose sums end in ReLU or in nothing."""

    def __init__(self, activation):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
            for _ in range(2)
        )
        self.activation = activation

    def forward(self, x):
        x = F.relu(self.first(x))
        for inner, outer in self.blocks:
            x = self.activation(outer(F.relu(inner(x))) + x)
        return x.mean((2, 3))


def test_what_shortcuts_carry_has_no_range_and_is_measured_in_each_image(tmp_path):
    _, packed = float_and_packed(lambda: Shortcuts(F.relu), Ternary())
    x = maps(40) * torch.linspace(0.1, 1, 40).view(-1, 1, 1, 1)
    network = loaded(packed, x[:2], tmp_path, calibration=x)
    ranges, program = ranges_in(tmp_path / "net.brx"), checked_program(packed, x[:2])
    without = [program.operations[i - 1].name for i, found in enumerate(ranges) if found is None]
    assert without == ["first", "add", "add"]
    reference = RoundedInterpreter(program, ranges)(x)
    assert largest_error(outputs(network, x), reference) < 0.01


@pytest.mark.parametrize(
    ("activation", "side"), [(nn.Identity(), 8), (F.relu, 46)], ids=["both signs", "large"]
)
def test_other_sums_keep_their_ranges(activation, side, tmp_path):
    _, packed = float_and_packed(lambda: Shortcuts(activation), Ternary())
    x = maps(20, 3, side, side)
    export_native(packed, x[:2], tmp_path / "net.brx", calibration=x)
    without = [found for found in ranges_in(tmp_path / "net.brx") if found is None]
    assert len(without) == (1 if side < 46 else 0)  # the first layer's


def test_what_is_beyond_the_range_is_taken_for_its_end(tmp_path):
    _, packed = float_and_packed(chain, Binary())
    x = maps(4)
    network = loaded(packed, x, tmp_path, calibration=x)
    found = outputs(network, 10 * x)[0]
    limited = outputs(network, (10 * x).clamp(float(x.min()), float(x.max())))[0]
    assert torch.equal(found, limited) and found.isfinite().all()


def test_a_calibrated_image_is_rounded_alike_in_any_company(tmp_path):
    _, packed = float_and_packed(chain, Binary())
    x = maps(5)
    network = loaded(packed, x, tmp_path, calibration=x)
    bright = torch.cat([x[:1], 100 * x[1:]])
    assert torch.equal(outputs(network, x)[0][0], outputs(network, bright)[0][0])


@pytest.mark.parametrize("calibrated", [False, True])
def test_fast_mode_is_near_torch_on_real_images(calibrated, tmp_path):
    model = packed_network("resnet20", Ternary())
    more = {"calibration": images(64)} if calibrated else {}
    network = loaded(model, images(1), tmp_path, **more)
    expected = outputs(model, images(64))[0]
    found = outputs(network, images(64))[0]
    assert float((found - expected).norm() / expected.norm()) < 0.02


def test_layers_of_zeros_and_constant_images_are_taken(tmp_path):
    model = seeded(lambda: Sum([nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)]))
    nn.init.zeros_(model[0].weight)
    packed = packed_with(dict.fromkeys(model, Ternary()), model)
    network = Twice(packed)
    for x in (maps(2), torch.zeros(2, 3, 9, 8), torch.ones(2, 3, 9, 8)):
        for options in ({"mode": "exact"}, {}, {"calibration": x}):
            found = outputs(loaded(network, maps(2), tmp_path, **options), x)
            assert largest_error(found, outputs(network, x)) < 0.05


class Twice(nn.Module):
    """The sum of both layers; a stack of tensors is no operation."""

    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[0](x) + self.layers[1](x)


def test_vectors_calibrate_too(tmp_path):
    _, packed = float_and_packed(
        lambda: nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4)), Binary()
    )
    x = vectors(50)
    network = loaded(packed, x[:2], tmp_path, calibration=x)
    assert largest_error(outputs(network, x), outputs(packed, x)) < 0.03
