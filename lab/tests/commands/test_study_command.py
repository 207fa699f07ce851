"""`binaryrelax study`: the files of results/findings, made anew on a handful of images."""

from pathlib import Path

import pytest
import torch
from lab.tests.support.tiny import tiny_data, tiny_recipe
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from binaryrelax.cli.app import make_app
from binaryrelax_lab.commands import plugins
from binaryrelax_lab.engine import FINAL_NAME, read_json
from binaryrelax_lab.packing import pack_run
from binaryrelax_lab.studies import batch_statistics, level_changes, shipped_networks

COMMITTED = Path(__file__).parents[3] / "results" / "findings"


def invoke(*arguments):
    return CliRunner().invoke(make_app(plugins()), ["study", *map(str, arguments)])


def finding(*arguments, out):
    """What the command has written."""
    result = invoke(*arguments, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"written to {out}"
    assert len(result.stdout.splitlines()) > 1, "no progress was told"
    return read_json(out)


def form_of(content):
    """Names of all entries, the first of each list."""
    if isinstance(content, dict):
        return {key: form_of(value) for key, value in content.items()}
    return [form_of(content[0])] if isinstance(content, list) else None


def assert_like_committed(found, name):
    committed = read_json(COMMITTED / name)
    assert list(found) == list(committed)
    assert form_of(found["records"]) == form_of(committed["records"])


@pytest.fixture
def small(monkeypatch, tiny_runs):
    """Few images, and recipes of a few steps."""
    initial = load_file(tiny_runs / "tiny-float" / FINAL_NAME)
    replaced = {
        "load_dataset": lambda name, data: tiny_data(),
        "load_fashion_mnist": tiny_data,
        "float_network_of_the_demo": lambda data, seed=0: initial,
        "find_recipe": lambda name: tiny_recipe("ternary" if "ternary" in name else "binary"),
        "decaying": lambda weight_decay: tiny_recipe("bwn"),
    }
    for module in (batch_statistics, level_changes, shipped_networks):
        for name, function in replaced.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, function)


@pytest.mark.parametrize(
    ("what", "committed"),
    [("flips", "flips.json"), ("jumps", "jumps-demo.json"), ("phase-two", "phase-two.json")],
)
def test_studies_of_the_demo_write_what_is_committed(what, committed, small, tmp_path):
    found = finding(what, out=tmp_path / "found.json")
    assert_like_committed(found, committed)
    assert found["environment"]["threads"] == 1


def test_networks_of_the_demo_are_trained_on_one_thread(small, tmp_path, monkeypatch):
    """The same bits whatever the number of cores."""
    threads = []
    flips = level_changes.flips
    monkeypatch.setattr(
        level_changes, "flips", lambda *a: threads.append(torch.get_num_threads()) or flips(*a)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        finding("flips", out=tmp_path / "found.json")
        assert threads == [1, 1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_jumps_start_from_a_given_network(small, tiny_runs, tmp_path):
    initial = tiny_runs / "tiny-float" / FINAL_NAME
    found = finding("jumps", "--init", initial, "--data", tmp_path, out=tmp_path / "found.json")
    assert_like_committed(found, "jumps-resnet20.json")


def test_recalibrated_networks_are_added_one_by_one(small, tiny_runs, tmp_path):
    for method in ("binary", "ternary"):
        network = load_file(tiny_runs / f"tiny-{method}" / FINAL_NAME)
        folder = tmp_path / method / f"tiny-{method}" / "seed0"
        folder.mkdir(parents=True)
        save_file(network, folder / FINAL_NAME)
        found = finding("recalibration", tmp_path / method, out=tmp_path / "found.json")
    assert [record["recipe"] for record in found["records"]] == ["tiny-binary", "tiny-ternary"]
    assert list(found) == ["environment", "batches", "records"]
    assert list(found["records"][0]) == [
        "recipe", "seed", "as_trained", "recalibrated", "digest", "torch", "git_commit",
    ]  # fmt: skip


def test_shipped_networks_are_tried_from_their_files(small, tiny_runs, tmp_path):
    packed = pack_run(
        tiny_runs / "tiny-ternary", tmp_path / "ternary.safetensors", fold_batchnorm=False
    )
    found = finding("networks", tmp_path, out=tmp_path / "found.json")
    assert_like_committed(found, "networks.json")
    assert found["records"] == [{"file": packed.file.name, "accuracy": packed.trained}]


MISUSED = {
    "weights": "study weights: there are flips, jumps, phase-two, recalibration, networks",
    "networks": "study networks needs the folder of packed networks",
    "recalibration": "study recalibration needs the folder of networks that runs have left",
    "flips runs": "study flips runs: it takes no folder of networks",
    "flips --data images": "study flips --data: it looks at the embedded images",
    "jumps --data images": "with --init it looks at CIFAR-10",
    "phase-two --init x": "study phase-two --init: only jumps starts from a given network",
}


@pytest.mark.parametrize("arguments", MISUSED)
def test_misuse_is_one_line_and_writes_nothing(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith("binaryrelax: ") and result.stderr.count("\n") == 1
    assert MISUSED[arguments] in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["recalibration", "networks"])
def test_a_folder_without_networks_is_one_line(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(what, ".")
    assert result.exit_code == 1
    assert "holds no" in result.stderr and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
