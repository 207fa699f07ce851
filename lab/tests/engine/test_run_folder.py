"""The one owner of a run's state: what a folder is to a job, read once."""

import errno
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from lab.tests.support.command import app, files_in, finish, start, wait_for_line
from lab.tests.support.interrupted import train_tiny
from lab.tests.support.tiny import tiny_recipe
from rich.console import Console
from typer.testing import CliRunner

from binaryrelax_lab.commands.training import ShownTraining
from binaryrelax_lab.engine import (
    FINAL_NAME,
    RESULT_NAME,
    Job,
    Machine,
    RunFolder,
    RunOptions,
    RunStopped,
    State,
    read_json,
    sole_use,
    write_json,
)
from binaryrelax_lab.engine.checkpoint import checkpoints
from binaryrelax_lab.engine.ranks import Ranks

TERNARY = tiny_recipe("ternary")


def state_of(folder, recipe=TERNARY, seed=0):
    return RunFolder(folder).state_for(Job(recipe, seed, folder).identity("fp32"))


@pytest.fixture
def half_done(tmp_path):
    with suppress(RunStopped):
        train_tiny(tmp_path, stop_after=2)
    return tmp_path


@pytest.fixture
def finished(tmp_path):
    train_tiny(tmp_path)
    return tmp_path


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert state_of(tmp_path / "nowhere") is State.EMPTY
    assert not RunFolder(tmp_path / "nowhere").is_begun
    assert not (tmp_path / "nowhere").exists()


def test_a_stopped_run_is_half_done_until_it_is_finished(half_done):
    assert state_of(half_done) is State.HALF_DONE
    assert RunFolder(half_done).recipe_name == TERNARY.name
    train_tiny(half_done, resume=True)
    assert state_of(half_done) is State.FINISHED


@pytest.mark.parametrize("kind", ["half_done", "finished"])
def test_another_recipe_or_seed_is_another_run(kind, request):
    folder = request.getfixturevalue(kind)
    assert state_of(folder, seed=1) is State.OTHER
    assert state_of(folder, replace(TERNARY, lr=0.5)) is State.OTHER


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_a_finished_run_without_its_network_is_damaged(finished, damage):
    damage(finished / FINAL_NAME)
    assert state_of(finished) is State.DAMAGED


DAMAGES = {
    "an epoch without an accuracy": lambda told: told["epochs"][0].update(accuracy=None),
    "no summary": lambda told: told.pop("summary"),
    "a wrong in_q": lambda told: told["summary"].update(in_q="x"),
    "seconds in words": lambda told: told.update(seconds="x"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("seed", [0, 7])
def test_a_finished_run_with_a_damaged_result_is_never_trained_over(damage, seed, finished):
    told = read_json(finished / RESULT_NAME)
    damage(told)
    write_json(finished / RESULT_NAME, told)
    assert state_of(finished) is State.DAMAGED
    before = files_in(finished)
    with pytest.raises(ValueError, match=r"holds a finished run (with|of)"):
        train_tiny(finished, seed=seed, resume=True)
    assert files_in(finished) == before


def test_what_is_no_result_at_all_is_no_run(finished):
    (finished / RESULT_NAME).write_text("[]")
    assert state_of(finished) is State.EMPTY


def test_a_run_that_finished_before_the_lock_was_ours_is_kept(tmp_path):
    """Another process may end between the first look and the lock."""
    job = Job(TERNARY, 0, tmp_path / "run")
    assert not job.is_finished()  # looked before the lock
    train_tiny(tmp_path / "run")
    before = files_in(tmp_path / "run")
    shown = ShownTraining(Console(quiet=True), [job], tmp_path, "again")
    [result] = shown.run(Machine(), RunOptions(resume=True))
    assert result.name == TERNARY.name
    assert files_in(tmp_path / "run") == before


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_up_to_the_user(number, tmp_path, monkeypatch):
    def flock(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with sole_use([tmp_path / "run"], Ranks()):
        (tmp_path / "run" / "file").write_text("x")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["file"]


def test_a_damaged_checkpoint_alone_is_begun_but_empty(half_done):
    for path in checkpoints(half_done):
        path.write_bytes(b"rubbish")
    assert state_of(half_done) is State.EMPTY
    folder = RunFolder(half_done)
    assert folder.is_begun and folder.at_stake()


def test_resume_reads_the_checkpoint_once(tmp_path, monkeypatch):
    """Through the whole command, which asks the folder several things."""
    command = ("train", "demo-float", "--epochs", "2", "--out", str(tmp_path))
    process = start(*command, "--checkpoint-every", "1")
    wait_for_line(process, "epoch 1/2")
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    newest, read = checkpoints(tmp_path)[0].name, []
    content_of = Path.read_bytes

    def noting(path):
        read.extend([path.name] * (path.suffix == ".ckpt"))
        return content_of(path)

    monkeypatch.setattr(Path, "read_bytes", noting)
    done = CliRunner().invoke(app, [*command, "--resume"])
    assert done.exit_code == 0, done.output
    assert read == [newest]
