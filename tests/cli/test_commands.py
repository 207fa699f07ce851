"""`certify` and `export`, as the library has them: without the lab."""

import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    Ternary,
    certify,
    export_native,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.cli import native_export, run
from binaryrelax.cli.export import _beside
from binaryrelax.cli.plugins import Plugins
from binaryrelax.packed import engines

OWN = "--to native --model mynet:build --input 2x8"
WRONG = {  # arguments after the file -> status and the words that help
    "--to tflite": (2, "--to tflite: there are native, onnx, openvino"),
    "--to onnx": (1, "give --model module:function and --input SHAPE, such as 1x3x32x32"),
    "--to onnx --model mynet:build": (2, "--model and --input belong together"),
    "--to onnx --input 2x8": (2, "--model and --input belong together"),
    "--to onnx --model mynet --input 2x8": (2, "--model mynet: write it as module:function"),
    "--to onnx --model mynet:build --input 2,8": (2, "--input 2,8: write the shape as numbers"),
    "--to onnx --model mynet:absent --input 2x8": (1, "cannot build a network (AttributeError"),
    "--to onnx --model nowhere:build --input 2x8": (1, "cannot build a network (ModuleNotFound"),
    "--to onnx --model mynet:fails --input 2x8": (1, "cannot build a network (ZeroDivisionError"),
    "--to onnx --model mynet:number --input 2x8": (1, "gave a int, not a torch.nn.Module"),
    "--to onnx --mode fast": (2, "--mode and --calibration are for --to native, not --to onnx"),
    "--to onnx --calibration x.npy": (2, "--calibration are for --to native, not --to onnx"),
    "--to native": (1, "give --model module:function and --input SHAPE"),
    f"{OWN} --mode quick": (2, "--mode quick: there are fast and exact"),
    f"{OWN} --mode exact --calibration x.npy": (2, "--calibration is for --mode fast"),
    f"{OWN} --calibration nowhere.npy": (1, "No such file or directory: 'nowhere.npy'"),
    f"{OWN} --calibration .": (1, "nobody knows the data set of this network; give an .npy file"),
    f"{OWN} --calibration bytes.npy": (1, "holds uint8 of the shape (4, 8); images must be as"),
    f"{OWN} --calibration wide.npy": (1, "a batch is of the shapes [(4, 9)], not (N, 8)"),
    f"{OWN} --calibration text.npy": (1, "--calibration text.npy is no intact .npy file"),
    f"{OWN} --out absent/net.brx": (1, "absent"),
}


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A packed network of a stranger's, in the folder where its module lies."""
    (tmp_path / "mynet.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))\n\n\n"
        "def fails():\n    1 / 0\n\n\ndef number():\n    return 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    torch.manual_seed(0)
    model = build()
    weights = select_weights(model, Ternary(), keep_float=("2",))
    with torch.no_grad():
        for weight, quantizer in weights.items():
            weight.copy_(quantizer.project(weight))
    save_packed(pack(model, weights), tmp_path / "net.safetensors", about={"task": "a test"})
    images = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    np.save("images.npy", images[:, :8])
    np.save("wide.npy", images)
    np.save("bytes.npy", images[:, :8].astype(np.uint8))
    Path("text.npy").write_text("no array")
    return tmp_path / "net.safetensors"


@pytest.fixture
def invoke(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["binaryrelax", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        status = run(Plugins(()))
        said = capsys.readouterr()
        return status, said.out, said.err

    return command


def test_export_builds_the_network_of_the_user(file, invoke):
    options = ("--to", "onnx", "--model", "mynet:build", "--input", "2x8")
    status, said, errors = invoke("export", file, *options)
    assert (status, errors) == (0, "")
    assert file.with_suffix(".onnx").is_file() and "net.onnx" in said


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "mode    fast: activations in 8 bits, their ranges measured anew in every image"),
        (("--calibration", "images.npy"), "their ranges those of 4 images"),
        (("--mode", "exact"), "mode    exact: activations stay float32"),
    ],
    ids=str,
)
def test_export_for_the_native_runtime_says_what_it_has_found(options, told, file, invoke):
    status, said, errors = invoke("export", file, *OWN.split(), *options)
    assert (status, errors) == (0, ""), errors
    target = file.with_suffix(".brx")
    first, mode, agrees, following = said.splitlines()
    assert first == f"{target}  {target.stat().st_size:,} bytes" and told in mode
    assert following == f"next    python -m binaryrelax_native {target} images.npy"
    certificate = certify(target, file)
    assert certificate.ok and certificate.about == {"task": "a test"}
    if engines.native() is None:
        assert "binaryrelax-native is not installed; pip install ./native" in agrees
    else:
        assert float(agrees.split()[7]) < (1e-5 if "exact" in told else 0.05), agrees


def test_a_file_that_the_runtime_computes_otherwise_is_not_written(file, invoke, monkeypatch):
    """As of kernels that are wrong on some CPU: the file is that of another network."""
    pytest.importorskip("binaryrelax_native")
    right = native_export.native_file
    monkeypatch.setattr(
        native_export, "native_file", lambda model, *rest: right(another(model), *rest)
    )
    file.with_suffix(".brx").write_text("kept")
    status, said, errors = invoke("export", file, *OWN.split(), "--mode", "exact")
    assert (status, said, errors.count("\n")) == (1, "", 1)
    assert "the native runtime in mode 'exact' gives other outputs than the packed model" in errors
    assert file.with_suffix(".brx").read_text() == "kept"


def another(model):
    other = deepcopy(model)
    with torch.no_grad():
        other[2].weight.neg_()
    return other


def test_exports_of_folders_bear_their_whole_names(tmp_path, monkeypatch):
    for name in ("lr0.05", "lr0.1"):
        (tmp_path / name).mkdir()
        assert _beside(tmp_path / name, ".onnx") == tmp_path / f"{name}.onnx"
    monkeypatch.chdir(tmp_path / "lr0.1")
    assert _beside(Path("."), ".xml") == tmp_path / "lr0.1.xml"
    assert _beside(Path("net.safetensors"), ".xml") == Path("net.xml")


def test_export_without_its_extra_says_what_to_install(file, invoke, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)  # how Python notes that there is none
    options = ("--to", "onnx", "--model", "mynet:build", "--input", "2x8")
    assert invoke("export", file, *options) == (
        1,
        "",
        "binaryrelax: export to onnx needs the module onnx: "
        "pip install '.[onnx]' in the source folder\n",
    )


@pytest.mark.parametrize("arguments", WRONG)
def test_what_cannot_be_exported_is_one_line(arguments, file, invoke):
    status, wanted = WRONG[arguments]
    found, said, errors = invoke("export", file, *arguments.split())
    assert (found, said, errors.count("\n")) == (status, "", 1)
    assert wanted in errors


def test_networks_of_the_native_runtime_are_certified_too(file, invoke):
    model = load_packed(file, build())
    for mode in ("fast", "exact"):
        export_native(model, torch.zeros(2, 8), file.with_name(f"{mode}.brx"), mode=mode)
    network = file.with_name("fast.brx")
    status, said, errors = invoke("certify", network)
    assert (status, errors) == (0, "")
    assert "certified 1 layers" in said and "equal" not in said
    for against in (file, file.with_name("exact.brx")):
        status, said, errors = invoke("certify", network, "--against", against)
        assert (status, errors) == (0, "")
        assert "equal     every packed layer is that of" in said and against.name in said
    model[0].codes[3, 1] ^= 1
    save_packed(model, file)
    status, said, errors = invoke("certify", network, "--against", file)
    assert status == 1 and errors.count("\n") == 1
    assert "fast.brx: layer '0' has other codes" in errors and "certified" not in said
    status, said, errors = invoke("certify", network, "--against", file.with_name("absent"))
    assert (status, said, errors.count("\n")) == (1, "", 1) and "absent" in errors


def test_certify_needs_no_lab(file, invoke):
    status, said, errors = invoke("certify", file)
    assert (status, errors) == (0, "")
    assert "certified 1 layers" in said
    status, _, errors = invoke("certify", file, "--accuracy")
    assert status == 1 and "--accuracy cannot try it" in errors


def test_a_damaged_file_exits_with_1(file, invoke):
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    status, _, errors = invoke("certify", file)
    assert (status, errors.count("\n")) == (1, 1)


def test_binary_weights_are_certified_too(tmp_path, invoke):
    model = nn.Sequential(nn.Linear(8, 8))
    weights = select_weights(model, Binary())
    with torch.no_grad():
        for weight, quantizer in weights.items():
            weight.copy_(quantizer.project(weight))
    save_packed(pack(model, weights), tmp_path / "one.safetensors")
    assert invoke("certify", tmp_path / "one.safetensors")[0] == 0


def test_words_of_a_file_do_not_drive_the_terminal(tmp_path, invoke):
    model = nn.ModuleDict({"\x1b[2J[bold]": nn.Linear(8, 8)})
    weights = select_weights(model, Binary())
    with torch.no_grad():
        for weight, quantizer in weights.items():
            weight.copy_(quantizer.project(weight))
    file = tmp_path / "net.safetensors"
    save_packed(pack(model, weights), file, about={"task": "none\x1b]0;title\x07\ncertified"})
    status, said, _ = invoke("certify", file)
    assert status == 0 and "\x1b" not in said and "\x07" not in said
    assert "\\x1b[2J[bold]" in said and "none\\x1b]0;title\\x07\\ncertified" in said
    missing = str(tmp_path / "\x1b[2Jnone")
    assert "\x1b" not in invoke("certify", missing)[2]
