import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer
from lab.tests.support.command import app
from typer.testing import CliRunner

import binaryrelax_command
from binaryrelax import __version__
from binaryrelax.cli import run
from binaryrelax.cli.errors import Invocation, one_line_errors
from binaryrelax.cli.plugins import Plugins
from binaryrelax_lab.commands import COMMANDS
from binaryrelax_lab.commands.bench import BENCHES
from binaryrelax_lab.recipes import ALL_RECIPES, LANGUAGE_RECIPES, plain

EVERY_COMMAND = (*COMMANDS, "certify", "export")
LISTED = (
    "name dataset network method quantizer epochs batch_size lr lr_schedule momentum weight_decay "
    "initial_strength growth growth_every_epochs phase_two_epoch paper_accuracy"
)
PER_GROUP = "Binary(granularity=PerGroup(7))"  # its first layer has rows of 9 weights
COMMAND = (str(Path(sys.executable).with_name("binaryrelax")),)
MODULE = (sys.executable, "-m", "binaryrelax")
MISUSED = {  # arguments that cannot work -> the words that help
    "train demo-ternray": "did you mean demo-ternary",
    "train demo-float --set lr=fast": "--set lr=fast: lr must be a number",
    "train demo-float --set lr": "write it as key=value",
    "train demo-float --set speed=3": "What can: network,",
    "train demo-float --set growth=2": "demo-float is a float network",
    "train demo-float --precision fp16": "--precision fp16: choose bf16 or fp32",
    "train demo-float --resume --overwrite": "one goes on, one begins anew",
    f"train demo-binary --set quantizer={PER_GROUP}": "block1.conv.weight: PerGroup(size=7) does",
    "train demo-binary --set keep_float=nosuch": "keep_float matched no Linear or Conv layer",
    "train demo-binary --set network=nosuch": "no network is called 'nosuch'",
    "train demo-binary --set network=vgg11": "cannot start from another network than vgg11",
    "train demo-float --set network=vgg11": "vgg11 cannot take images of 28 x 28 pixels",
    "train demo-binary --set growth=1e300": "λ overflows",
    "campaign nothing": "no table is called 'nothing'; there are: cifar10,",
    "campaign cifar10 --only x*": "--only x* matches no recipe",
    "campaign demo --precision fp16": "--precision fp16: choose bf16 or fp32",
    "export net.safetensors --to tflite": "--to tflite: there are native, onnx, openvino",
    "report results --out r.txt": "--out r.txt: its name must end with .html or .md",
    "theory --only nothing": "--only nothing: there is no such part",
    "train demo-binary@x": "no recipe is called 'demo-binary@x'; did you mean demo-binary",
    "train demo-binary --set starts_from=demo-float@3": "starts_from must be a name, without",
    "train demo-float --set lr=1 --set lr=2": "lr is set twice",
    "bench nothing": "there are step, convolutions, projection, networks, packed, packed_gpu",
    "bench packed --sweep": "only packed_gpu has other plans",
    "bench packed --quick": "--data and --quick are for networks",
    "bench step --data x": "--data and --quick are for networks",
    "bench networks --data nowhere": "--data nowhere is not there; give the folder or archive",
}
REFUSED = {  # what is not there -> the words that help
    "train demo-binary --init nothing": "give a safetensors file with --init",
    "train cifar10-resnet20-binary --data nowhere": "give its folder with --data",
    "train imagenet-resnet18-binary --data nowhere": "give its folder with --data DIR\n",
    "campaign cifar10 --data nowhere": "give its folder with --data",
    "report nowhere": "nowhere is not a folder",
}


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def start_demo(out, *arguments: str) -> subprocess.Popen:
    """A real demo in a process of its own, with one epoch per network."""
    command = [sys.executable, "-u", "-m", "binaryrelax", "demo", "--epochs", "1"]
    return subprocess.Popen(
        [*command, "--out", str(out), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop_after(process: subprocess.Popen, words: str, number: int) -> str:
    """Everything the process says, with the signal sent once it has said `words`."""
    said = []
    for line in process.stdout:
        said.append(line)
        if words in line:
            process.send_signal(number)
            break
    rest, errors = process.communicate(timeout=60)
    assert errors == ""
    return "".join(said) + rest


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_commands(option):
    result = invoke(option)
    assert result.exit_code == 0
    for command in EVERY_COMMAND:
        assert command in result.output


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_help_of_every_command_has_examples(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert result.output.count(f"binaryrelax {command}") >= 2


def test_json_of_the_recipes_is_all_that_is_printed():
    command = [sys.executable, "-m", "binaryrelax", "recipes", "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    assert shown.stdout.startswith("[") and shown.stdout.endswith("]\n")
    entries = json.loads(shown.stdout, parse_constant=lambda name: pytest.fail(name))
    recipes = (*ALL_RECIPES, *LANGUAGE_RECIPES)
    assert entries == [json.loads(json.dumps(plain(recipe))) for recipe in recipes]
    for entry in entries:
        assert set(LISTED.split()) <= entry.keys(), entry["name"]


def test_table_of_the_recipes_fits_a_small_terminal():
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["recipes"])
    assert result.exit_code == 0
    assert "…" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize("arguments", MISUSED)
def test_arguments_that_cannot_work_are_one_line_and_exit_with_2(arguments, tmp_path, monkeypatch):
    """Before anything is done; a float ancestor is not trained in vain."""
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("binaryrelax: ") and result.stderr.count("\n") == 1
    assert MISUSED[arguments] in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_cannot_be_done_is_one_line(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments.split())
    assert result.exit_code == 1
    assert result.stderr.startswith("binaryrelax: ") and result.stderr.count("\n") == 1
    assert REFUSED[arguments] in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_is_there(name):
    module = import_module(f"binaryrelax_lab.studies.bench.{name}")
    assert callable(getattr(module, f"bench_{name}"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="would measure")
def test_bench_of_a_gpu_says_that_there_is_none(tmp_path):
    result = invoke("bench", "packed_gpu", "--sweep", "--out", str(tmp_path / "x.json"))
    assert result.exit_code == 1
    assert result.stderr == (
        "binaryrelax: bench packed_gpu needs a CUDA device; this machine has none\n"
    )


def test_version():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"binaryrelax {__version__}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("trian",),
        ("demo", "--epoch", "3"),
        ("demo", "--epochs", "0"),
        ("demo", "--seed", "-1"),
        ("demo", "--seed", "one"),
        ("demo", "extra"),
        ("train",),
        ("train", "demo-float", "--epochs", "0"),
        ("train", "demo-float", "--checkpoint-every", "0"),
        ("campaign", "demo", "--jobs", "0"),
        ("campaign", "demo", "--minutes", "-1"),
        ("recipes", "--yaml"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments):
    assert invoke(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nothing", "No such command 'nothing'"),
        ("train", "Missing argument 'recipe'"),
        ("train demo-float --epochs 0", "Invalid value for '--epochs'"),
        ("train demo-float --bogus", "No such option: --bogus"),
        ("", None),
    ],
)
def test_what_the_parser_refuses_is_one_line(arguments, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["binaryrelax", *arguments.split()])
    assert run() == 2
    said = capsys.readouterr()
    if words is None:
        assert "Usage" in said.out and said.err == ""
    else:
        assert said.err.startswith(f"binaryrelax: {words}") and said.err.count("\n") == 1
        assert said.err.endswith("--help` shows what there is\n")


def test_bench_looks_at_its_out_before_it_measures(tmp_path):
    (tmp_path / "file").touch()
    result = invoke("bench", "projection", "--out", str(tmp_path / "file" / "x.json"))
    assert result.exit_code == 1
    assert (
        result.stderr
        == f"binaryrelax: --out {tmp_path}/file is a file; give the name of a folder\n"
    )


def test_out_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "demo").write_text("mine")
    result = invoke("demo", "--out", str(tmp_path / "demo"))
    assert result.exit_code == 1
    assert result.stderr == (
        f"binaryrelax: --out {tmp_path / 'demo'} is a file; give the name of a folder\n"
    )
    assert (tmp_path / "demo").read_text() == "mine"


def test_out_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    result = invoke("demo", "--out", str(tmp_path / "file" / "demo"))
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "cannot be written to (Not a directory)" in result.stderr


@pytest.mark.parametrize("arguments", [("--debug", "demo"), ("demo", "--debug")], ids=" ".join)
def test_debug_shows_the_traceback(arguments, tmp_path):
    (tmp_path / "demo").touch()
    result = invoke(*arguments, "--out", str(tmp_path / "demo"))
    assert isinstance(result.exception, ValueError)


def test_missing_extra_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(binaryrelax_command, "find_spec", lambda name: name != "rich" or None)
    with pytest.raises(SystemExit) as end:
        binaryrelax_command.main()
    assert end.value.code == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install '.[cli]' in the source folder" in error


@pytest.mark.parametrize(
    ("command", "loaded"),
    [
        (COMMAND, "numpy.dtypes"),  # here a KeyboardInterrupt becomes an ImportError
        (COMMAND, "numpy.matrixlib"),  # and here it is swallowed
        (COMMAND, "torch.nn"),
        (COMMAND, "typer"),
        (MODULE, "typer"),  # not earlier: Python itself imports the package, and thereby torch
    ],
)
def test_interrupt_while_the_command_loads_is_one_line(command, loaded):
    """A real signal as soon as Python says, for each module it does, that it has imported that."""
    process = subprocess.Popen(
        [*command, "recipes"],
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.endswith(f" {loaded}\n"):
            process.send_signal(signal.SIGINT)
            break
    said = process.communicate(timeout=60)[1].splitlines()
    assert [line for line in said if not line.startswith("import time:")] == [
        "binaryrelax: interrupted"
    ]
    assert process.returncode == 130


def test_interrupt_of_a_command_that_saves_nothing_is_one_line(capsys):
    context = SimpleNamespace(obj=Invocation(debug=False, plugins=Plugins(())))
    with pytest.raises(typer.Exit) as end, one_line_errors(context, debug=False):
        signal.raise_signal(signal.SIGINT)
    assert end.value.exit_code == 130
    assert capsys.readouterr().err == "binaryrelax: interrupted\n"


@pytest.mark.slow
def test_interrupted_demo_says_what_was_kept_and_goes_on(tmp_path):
    process = start_demo(tmp_path, "--resume")
    said = stop_after(process, "[2/5]", signal.SIGINT)
    assert process.returncode == 130
    assert f"Nothing is saved in {tmp_path} yet" in said
    assert f"1 of 5 networks are finished and kept in {tmp_path}: demo-float@1" in said
    assert "--epochs 1 --resume" in said

    process = start_demo(tmp_path, "--resume")
    said = stop_after(process, "[2/5]", signal.SIGTERM)
    assert process.returncode == 143
    assert "[1/5] demo-float@1: finished before, kept" in said


@pytest.mark.slow
def test_demo_reaches_the_promised_figures(tmp_path):
    """The whole demo: float at least 88 %, all the others in Q, page and picture written."""
    from binaryrelax_lab.engine import RESULT_NAME, read_json

    result = invoke("demo", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    entries = {entry["name"]: entry for entry in json.loads(invoke("recipes", "--json").stdout)}
    for method in ("float", "bwn", "binary", "twn", "ternary"):
        run = read_json(tmp_path / f"demo-{method}" / RESULT_NAME)
        assert run["recipe"] == entries[f"demo-{method}"]
    assert read_json(tmp_path / "demo-float" / RESULT_NAME)["summary"]["last"] >= 88
    for method in ("bwn", "binary", "twn", "ternary"):
        run = read_json(tmp_path / f"demo-{method}" / RESULT_NAME)
        assert run["summary"]["in_q"] is True
        assert run["summary"]["last"] >= 80
        finite = [e["strength"] for e in run["epochs"] if e["strength"] != "inf"]
        assert not finite or max(finite) >= 100
    assert (tmp_path / "report.html").stat().st_size > 50_000
    assert (tmp_path / "picture.png").stat().st_size < 200_000
