"""A folder is only gone on with if it holds the very run that was asked for."""

from contextlib import suppress
from dataclasses import replace

import pytest
from lab.tests.support.command import app, evidence, files_in
from lab.tests.support.errors import one_line
from lab.tests.support.interrupted import FINISHED, HALF_DONE, train_on_noise, train_tiny
from lab.tests.support.tiny import tiny_data, tiny_recipe
from typer.testing import CliRunner

from binaryrelax_lab.engine import (
    FINAL_NAME,
    RESULT_NAME,
    Job,
    Machine,
    RunOptions,
    RunStopped,
    digest_of,
    job_with_ancestor,
    read_json,
    train,
    write_json,
)
from binaryrelax_lab.engine.checkpoint import load_newest, save_checkpoint
from binaryrelax_lab.recipes import find_recipe

FLOAT, BINARY = (find_recipe(name).with_epochs(1) for name in ("demo-float", "demo-binary"))
WAYS_OUT = "; ask for the same, give another --out, or remove that folder to begin anew"
KINDS = pytest.mark.parametrize(
    ("stop_after", "kind"),
    [(HALF_DONE, "a half-done run"), (FINISHED, "a finished run")],
    ids=["half-done", "finished"],
)
OTHERS = {  # what is asked for of a folder that holds demo-float@1 -> the difference
    "demo-float --epochs 1 --seed 1": "seed 0 instead of 1",
    "demo-float --epochs 1 --precision bf16": "precision fp32 instead of bf16",
    "demo-float --epochs 2": "recipe name demo-float@1 instead of demo-float@2",
    "demo-float --epochs 1 --set lr=0.2": "recipe name demo-float@1 instead of demo-float+lr=0.2@1",
    "demo-binary --epochs 1 --seed 2": "recipe name demo-float@1 instead of demo-binary@1 and "
    "seed 0 instead of 2",
}


def left_behind(folder, stop_after, **job):
    """A folder with a run that was stopped after so many steps, or finished."""
    with suppress(RunStopped):
        train_tiny(folder, stop_after=stop_after, **job)
    return files_in(folder)


def go_on(folder, *, recipe=None, seed=0, initial=None, precision="fp32"):
    job = Job(recipe or tiny_recipe("ternary"), seed, folder, initial)
    machine = Machine(precision=precision)
    train(job, tiny_data(40), machine=machine, options=RunOptions(resume=True))


def resume(command, out):
    return CliRunner().invoke(app, ["train", *command.split(), "--resume", "--out", str(out)])


@KINDS
@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"seed": 1}, "seed 0 instead of 1"),
        ({"precision": "bf16"}, "precision fp32 instead of bf16"),
        ({"recipe": tiny_recipe("float")}, "recipe name tiny-ternary instead of tiny-float"),
        ({"recipe": replace(tiny_recipe("ternary"), lr=0.2)}, "recipe lr 0.1 instead of 0.2"),
    ],
    ids=["seed", "precision", "recipe", "setting"],
)
def test_another_run_is_refused(other, difference, stop_after, kind, tmp_path):
    before = left_behind(tmp_path, stop_after)
    with pytest.raises(ValueError, match="instead of") as caught:
        go_on(tmp_path, **other)
    assert one_line(caught) == f"{tmp_path} holds {kind} with {difference}"
    assert files_in(tmp_path) == before


@KINDS
def test_another_start_is_refused(stop_after, kind, tiny_runs, tmp_path):
    initial = tiny_runs / "tiny-float" / FINAL_NAME
    before = left_behind(tmp_path, stop_after, initial=initial)
    with pytest.raises(ValueError, match="instead of random weights") as caught:
        go_on(tmp_path)
    assert f"holds {kind} with a start from tiny-float/{FINAL_NAME} (" in one_line(caught)
    with pytest.raises(ValueError, match=r"tiny-float/\S+ \(\w{8}\) instead of tiny-binary/\S+ \("):
        go_on(tmp_path, initial=tiny_runs / "tiny-binary" / FINAL_NAME)
    assert files_in(tmp_path) == before


@KINDS
def test_the_same_start_in_another_folder_is_not_another_start(
    stop_after, kind, tiny_runs, tmp_path
):
    initial = tiny_runs / "tiny-float" / FINAL_NAME
    left_behind(tmp_path / "run", stop_after, initial=initial)
    elsewhere = tmp_path / "downloads" / "float.safetensors"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(initial.read_bytes())
    job = Job(tiny_recipe("ternary"), 0, tmp_path / "run", elsewhere)
    assert job.is_finished() is (stop_after is FINISHED)
    go_on(tmp_path / "run", initial=elsewhere)
    assert replace(job).is_finished()  # looked at anew
    told = read_json(tmp_path / "run" / RESULT_NAME)["initial_checkpoint"]
    assert told == {"name": "downloads/float.safetensors", "digest": digest_of(initial)}


def stopped_with(precision, folder):
    """A checkpoint as it comes from a machine with that precision, or from an earlier version."""
    left_behind(folder, 7)
    saved = load_newest(folder, pytest.fail)
    assert saved.pop("precision") == "fp32"
    save_checkpoint(folder, 7, saved if precision is None else {**saved, "precision": precision})


def test_a_checkpoint_of_another_machine_says_its_precision(tmp_path):
    stopped_with("bf16", tmp_path)
    with pytest.raises(ValueError, match="half-done run with precision bf16 instead of fp32"):
        go_on(tmp_path)


def test_a_checkpoint_of_an_earlier_version_goes_on(tmp_path):
    """It does not tell its precision."""
    train_tiny(tmp_path / "whole")
    stopped_with(None, tmp_path / "stopped")
    go_on(tmp_path / "stopped")
    assert evidence(tmp_path / "stopped") == evidence(tmp_path / "whole")


@pytest.mark.parametrize("foreign", [{}, [], "words", {"recipe": 1, "environment": {"seed": 5}}])
def test_something_else_called_result_is_replaced(foreign, tmp_path):
    write_json(tmp_path / RESULT_NAME, foreign)
    go_on(tmp_path)
    assert read_json(tmp_path / RESULT_NAME)["seed"] == 0


@KINDS
@pytest.mark.parametrize("command", OTHERS)
def test_the_command_names_the_difference_in_one_line(command, stop_after, kind, tmp_path):
    """Before anything is done, also before a float ancestor is trained inside the folder."""
    train_on_noise([Job(FLOAT, 0, tmp_path)], stop_after)
    before = files_in(tmp_path)
    result = resume(command, tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    error = f"{tmp_path} holds {kind} with {OTHERS[command]}{WAYS_OUT}"
    assert result.stderr == f"binaryrelax: {error}\n"
    assert files_in(tmp_path) == before


@KINDS
def test_the_command_names_the_folder_of_the_ancestor(stop_after, kind, tmp_path):
    jobs = job_with_ancestor(BINARY, seed=0, out=tmp_path, initial=None)
    train_on_noise(jobs, stop_after)
    before = files_in(tmp_path)
    result = resume("demo-binary --epochs 1 --seed 3", tmp_path)
    assert result.exit_code == 1
    folder = tmp_path / FLOAT.name
    assert f"{folder} holds a finished run with seed 0 instead of 3" in result.stderr
    (folder / RESULT_NAME).unlink()  # as if it had been taken over from elsewhere
    result = resume("demo-binary --epochs 1 --seed 3", tmp_path)
    assert f"{tmp_path} holds {kind} with seed 0 instead of 3" in result.stderr
    assert {**files_in(tmp_path), **before} == before


def test_a_finished_run_is_kept_by_the_command_that_made_it(tmp_path):
    train_on_noise([Job(FLOAT, 0, tmp_path)])
    before = files_in(tmp_path)
    result = resume("demo-float --epochs 1 --precision fp32", tmp_path)
    assert result.exit_code == 0, result.output
    assert "finished before, kept" in result.stdout
    assert files_in(tmp_path) == before
