"""`certify` and `export`, as the library has them: without the lab."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    Ternary,
    export_native,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.cli import run
from binaryrelax.cli.export import _beside
from binaryrelax.cli.plugins import Plugins

WRONG = {  # arguments after the file -> status and the words that help
    "--to tflite": (2, "--to tflite: there are onnx and openvino"),
    "--to onnx": (1, "give --model module:function and --input SHAPE, such as 1x3x32x32"),
    "--to onnx --model mynet:build": (2, "--model and --input belong together"),
    "--to onnx --input 2x8": (2, "--model and --input belong together"),
    "--to onnx --model mynet --input 2x8": (2, "--model mynet: write it as module:function"),
    "--to onnx --model mynet:build --input 2,8": (2, "--input 2,8: write the shape as numbers"),
    "--to onnx --model mynet:absent --input 2x8": (1, "cannot build a network (AttributeError"),
    "--to onnx --model nowhere:build --input 2x8": (1, "cannot build a network (ModuleNotFound"),
    "--to onnx --model mynet:fails --input 2x8": (1, "cannot build a network (ZeroDivisionError"),
    "--to onnx --model mynet:number --input 2x8": (1, "gave a int, not a torch.nn.Module"),
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
    save_packed(pack(model, weights), tmp_path / "net.safetensors")
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
