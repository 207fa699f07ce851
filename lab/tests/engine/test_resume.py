import signal
import time
from dataclasses import replace

import pytest
from lab.tests.support.command import app, evidence, files_in, finish, start, wait_for_line
from lab.tests.support.interrupted import train_tiny
from lab.tests.support.tiny import tiny_recipe
from typer.testing import CliRunner

from binaryrelax import Ternary
from binaryrelax_lab.data import load_dataset
from binaryrelax_lab.engine import (
    HISTOGRAMS_NAME,
    Listener,
    Machine,
    RunOptions,
    RunStopped,
    job_with_ancestor,
    train_all,
)
from binaryrelax_lab.engine.checkpoint import checkpoints
from binaryrelax_lab.recipes import find_recipe

RECIPES = {
    "float": tiny_recipe("float"),
    "binary": tiny_recipe("binary"),
    "ternary": tiny_recipe("ternary"),
    "ternary-exact": replace(tiny_recipe("ternary"), name="tiny-exact", quantizer=Ternary()),
    "without momentum": replace(tiny_recipe("binary"), momentum=0.0),
}
NUM_STEPS = 12  # 4 epochs of 3 steps; Phase II is the last epoch
COMMAND = ("train", "demo-ternary", "--epochs", "1")


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory):
    """What runs that nothing interrupts leave behind, by the name of their recipe."""
    out = tmp_path_factory.mktemp("whole")
    for name, recipe in RECIPES.items():
        train_tiny(out / name, recipe=recipe)
    return {name: everything(out / name) for name in RECIPES}


@pytest.fixture(scope="module")
def whole_command(tmp_path_factory):
    """What the uninterrupted command leaves behind: the float ancestor's evidence and its own."""
    out = tmp_path_factory.mktemp("command")
    recipe = find_recipe("demo-ternary").with_epochs(1)
    jobs = job_with_ancestor(recipe, seed=0, out=out, initial=None)
    data = load_dataset(recipe.dataset)
    train_all(jobs, data, machine=Machine(), listener=Listener(), options=RunOptions())
    return evidence(out / "demo-float@1"), evidence(out)


def everything(folder):
    return *evidence(folder), (folder / HISTOGRAMS_NAME).read_bytes()


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_stopped_after_each_of_its_steps_ends_with_the_same_bits(name, tmp_path, whole_runs):
    for _ in range(NUM_STEPS - 1):
        with pytest.raises(RunStopped):
            train_tiny(tmp_path, recipe=RECIPES[name], stop_after=1, resume=True)
    train_tiny(tmp_path, recipe=RECIPES[name], resume=True)
    assert everything(tmp_path) == whole_runs[name]


@pytest.mark.parametrize("step", range(1, NUM_STEPS))
def test_a_run_stopped_once_ends_with_the_same_bits(step, tmp_path, whole_runs):
    with pytest.raises(RunStopped, match=f"stopped after {step / 3:.2f} of 4 epochs"):
        train_tiny(tmp_path, stop_after=step)
    assert checkpoints(tmp_path)[0].name == f"step-{step:09d}.ckpt"
    train_tiny(tmp_path, resume=True)
    assert everything(tmp_path) == whole_runs["ternary"]


def test_a_wish_that_comes_with_the_last_step_lets_the_run_finish(tmp_path, whole_runs):
    train_tiny(tmp_path, stop_after=NUM_STEPS)
    assert everything(tmp_path) == whole_runs["ternary"]


def test_a_run_with_one_step_an_epoch_can_be_stopped(tmp_path):
    recipe = replace(tiny_recipe("float"), batch_size=64)
    with pytest.raises(RunStopped, match=r"after 2\.00 of 4 epochs"):
        train_tiny(tmp_path, recipe=recipe, stop_after=2)


def stop(number, out, *, when):
    """Starts the command and stops it half a second after it has said `when`.

    Returns what it had said by then, its exit status, and the lines that it says at the end.
    """
    process = start(*COMMAND, "--out", out, "--resume")
    before = wait_for_line(process, when)
    time.sleep(0.5)
    process.send_signal(number)
    status, after, errors = finish(process)
    assert errors == ""
    return before, status, after.splitlines()


@pytest.mark.slow
def test_the_command_survives_signals_in_both_networks(tmp_path, whole_command):
    said, status, lines = stop(signal.SIGINT, tmp_path, when="[1/2] demo-float@1")
    assert said.startswith(f"Nothing is saved in {tmp_path} yet: starting afresh.\n")
    assert status == 130 and len(lines) == 3
    assert lines[0] == f"Stopped. 0 of 2 networks are finished and kept in {tmp_path}."
    assert lines[1].startswith("A checkpoint was written: demo-float@1 stopped after 0.")
    assert lines[2] == "To go on: the same command with --resume"

    said, status, lines = stop(signal.SIGTERM, tmp_path, when="  too short for a Phase I")
    assert "[1/2] demo-float@1: Float, resumed at epoch 0." in said
    assert evidence(tmp_path / "demo-float@1") == whole_command[0]
    assert status == 143 and len(lines) == 3
    assert lines[0].startswith("Stopped. 1 of 2 networks are finished")
    assert lines[1].startswith("A checkpoint was written: demo-ternary@1 stopped after 0.")

    done = CliRunner().invoke(app, [*COMMAND, "--out", str(tmp_path), "--resume"])
    assert done.exit_code == 0
    assert "[1/2] demo-float@1: finished before, kept" in done.output
    assert "[2/2] demo-ternary@1: BinaryRelax ternary, resumed at epoch 0." in done.output
    assert evidence(tmp_path) == whole_command[1]

    before = files_in(tmp_path)
    done = CliRunner().invoke(app, [*COMMAND, "--out", str(tmp_path), "--resume"])
    assert done.exit_code == 0
    assert done.output.count("finished before, kept") == 2
    assert files_in(tmp_path) == before


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(tmp_path):
    process = start("train", "demo-float", "--out", tmp_path)
    wait_for_line(process, "[1/1] demo-float")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    status, said, errors = finish(process)
    assert (status, errors) == (130, "binaryrelax: interrupted\n")
    assert "checkpoint" not in said
