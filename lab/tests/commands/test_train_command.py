"""`binaryrelax train`: one real recipe on the embedded images, through the command."""

import json
import signal
import subprocess
import sys

import pytest
from lab.tests.support.command import app
from lab.tests.support.noise import noise_for
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, Job, digest_of, read_json, train
from binaryrelax_lab.engine.checkpoint import checkpoints, load_newest
from binaryrelax_lab.recipes import cifar10_resnet20, demo_ternary, plain

TERNARY = "train demo-ternary --epochs 1 --set lr=0.05 --set keep_float= --tensorboard --out"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def start_and_stop(number, *arguments):
    """Everything that a real process says which gets a signal as soon as a run begins."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "binaryrelax", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("[1/1]"):
            process.send_signal(number)
            break
    rest, errors = process.communicate(timeout=60)
    assert errors == ""
    assert process.returncode == 128 + number
    return "".join(said) + rest


def snapshot(folder):
    """Bytes and times of every file, and the times of folders."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder, and what the command said."""
    out = tmp_path_factory.mktemp("train") / "ternary"
    result = invoke(*TERNARY.split(), out)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return out, result.stdout


def test_run_has_exactly_the_settings_that_were_asked_for(trained):
    out, _ = trained
    changed = demo_ternary().with_settings({"lr": "0.05", "keep_float": ""}).with_epochs(1)
    recipe = read_json(out / RESULT_NAME)["recipe"]
    assert recipe == json.loads(json.dumps(plain(changed)))
    assert recipe["name"] == "demo-ternary+lr=0.05+keep_float=@1"
    assert (recipe["lr"], recipe["keep_float"], recipe["epochs"]) == (0.05, [], 1)


def test_float_ancestor_is_trained_first_inside_the_run_folder(trained):
    out, said = trained
    ancestor = out / "demo-float@1"
    assert said.index("[1/2] demo-float@1: Float") < said.index("[2/2] demo-ternary+lr=0.05")
    assert read_json(ancestor / RESULT_NAME)["recipe"]["lr"] == 0.1
    result = read_json(out / RESULT_NAME)
    assert result["initial_checkpoint"]["digest"] == digest_of(ancestor / FINAL_NAME)
    assert result["recipe"]["starts_from"] == "demo-float@1"
    assert result["summary"]["in_q"] is True


def test_lines_tell_everything_about_an_epoch(trained):
    _, said = trained
    lines = [line for line in said.splitlines() if line.startswith("  epoch 1/1")]
    assert len(lines) == 2
    words = ("phase II", "λ ∞", "lr ", "loss ", "accuracy ", " images/s", "time left 0:00")
    assert all(word in lines[1] for word in words)
    assert "weights in Q" in said


def test_log_for_tensorboard_has_both_networks(trained):
    out, _ = trained
    for folder in (out, out / "demo-float@1"):
        result = read_json(folder / RESULT_NAME)
        reader = EventAccumulator(str(out / "tensorboard" / result["recipe"]["name"]))
        reader.Reload()
        [event] = reader.Scalars("accuracy")
        assert event.step == 0
        assert event.value == pytest.approx(result["summary"]["last"], rel=1e-6)


def test_resume_of_a_finished_run_changes_nothing(trained):
    out, _ = trained
    before = snapshot(out)
    result = invoke(*TERNARY.split(), out, "--resume")
    assert result.exit_code == 0
    assert "[2/2] demo-ternary+lr=0.05+keep_float=@1: finished before, kept" in result.stdout
    assert "weights in Q" in result.stdout
    assert snapshot(out) == before


def test_resume_of_a_finished_run_needs_no_images(tmp_path):
    recipe = cifar10_resnet20("float").with_epochs(1)
    train(Job(recipe, 0, tmp_path), noise_for("cifar10"))
    before = snapshot(tmp_path)
    command = [
        "train",
        "cifar10-resnet20-float",
        "--epochs",
        "1",
        "--resume",
        "--data",
        "nowhere",
        "--out",
    ]
    result = invoke(*command, tmp_path)
    assert result.exit_code == 0, result.output
    assert "cifar10-resnet20-float@1: finished before, kept" in result.stdout
    assert snapshot(tmp_path) == before
    assert invoke(*command, tmp_path, "--seed", 1).exit_code == 1


def test_stopped_run_goes_on_to_the_same_bits(trained, tmp_path):
    command = ("train", "demo-float", "--epochs", "1", "--resume", "--out", tmp_path)
    said = start_and_stop(signal.SIGTERM, *command)
    assert f"Nothing is saved in {tmp_path} yet: starting afresh." in said
    assert "A checkpoint was written: demo-float@1 stopped after 0." in said
    assert "To go on: the same command with --resume" in said
    assert not (tmp_path / RESULT_NAME).exists()
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    assert "resumed at epoch 0." in result.stdout
    out, _ = trained
    assert digest_of(tmp_path / FINAL_NAME) == digest_of(out / "demo-float@1" / FINAL_NAME)


def test_train_runs_the_very_recipe_that_the_list_prints(tmp_path):
    start_and_stop(signal.SIGINT, "train", "demo-float", "--out", tmp_path)
    [entry] = [
        e for e in json.loads(invoke("recipes", "--json").stdout) if e["name"] == "demo-float"
    ]
    assert len(checkpoints(tmp_path)) == 1
    saved = load_newest(tmp_path, pytest.fail)
    assert json.loads(json.dumps(saved["recipe"])) == entry


def test_init_replaces_the_ancestor(trained, tmp_path):
    out, _ = trained
    start = out / "demo-float@1" / FINAL_NAME
    short = ("--epochs", 1, "--set", "held_out=9800")  # two steps on what is left of the images
    result = invoke("train", "demo-bwn", *short, "--init", start, "--out", tmp_path / "bwn")
    assert result.exit_code == 0, result.output
    assert "[1/1] demo-bwn+held_out=9800@1: BWN" in result.stdout
    saved = read_json(tmp_path / "bwn" / RESULT_NAME)["initial_checkpoint"]
    assert saved == {"name": f"demo-float@1/{FINAL_NAME}", "digest": digest_of(start)}
    assert not (tmp_path / "bwn" / "demo-float@1").exists()
