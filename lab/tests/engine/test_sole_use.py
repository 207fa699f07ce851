"""Two processes never train into the same folder."""

import signal
import threading
from contextlib import contextmanager

import pytest
from lab.tests.support.command import (
    app,
    files_in,
    finish,
    kill,
    run,
    start,
    wait_for_line,
    wait_until,
)
from lab.tests.support.errors import one_line
from lab.tests.support.interrupted import train_on_noise
from typer.testing import CliRunner

from binaryrelax_lab.engine import RESULT_NAME, job_with_ancestor, sole_use
from binaryrelax_lab.engine.ranks import Ranks
from binaryrelax_lab.recipes import find_recipe

BINARY = find_recipe("demo-binary").with_epochs(1)
TRAIN = ("train", "demo-float", "--epochs", "2", "--checkpoint-every", "1", "--out")


def has_checkpoint(folder):
    return any(folder.rglob("step-*.ckpt"))


def invoke(*arguments):
    """Exit status, output and errors of a command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def in_use(folder):
    return (
        f"binaryrelax: {folder} is in use: another process trains there; wait for its end, or "
        "give another --out\n"
    )


def test_a_folder_is_given_to_one_at_a_time_and_left_as_it_was(tmp_path):
    folders = [tmp_path / "run" / "ancestor", tmp_path / "run"]
    for _ in range(2):
        with sole_use(folders, Ranks()):
            for folder in folders:
                with pytest.raises(ValueError, match="is in use") as caught:
                    sole_use([tmp_path / "beside", folder], Ranks()).__enter__()
                assert str(folder) in one_line(caught)
            with sole_use([tmp_path / "other"], Ranks()):
                pass
    assert not list(tmp_path.iterdir())


def test_what_was_written_inside_stays(tmp_path):
    with sole_use([tmp_path / "run"], Ranks()):
        (tmp_path / "run" / "mine").touch()
    assert files_in(tmp_path) == {"run/mine": b""}


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "run").touch()
    for folder in (tmp_path / "run", tmp_path / "run" / "ancestor"):
        with pytest.raises((ValueError, NotADirectoryError), match=str(folder)):
            sole_use([folder], Ranks()).__enter__()


def test_many_who_come_and_go_never_meet(tmp_path):
    """The file of the lock is removed by one while another opens it."""
    inside, most, turns, failures = [], [], [], []

    def come_and_go():
        for _ in range(300):
            try:
                with sole_use([tmp_path / "run"], Ranks()):
                    inside.append(1)
                    most.append(len(inside))
                    turns.append(1)
                    inside.pop()
            except ValueError:
                pass
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert max(most) == 1 and len(turns) > 100


@contextmanager
def paused(process):
    """The process cannot be through too soon."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_a_second_process_is_turned_away_until_the_first_is_dead(tmp_path):
    folder = tmp_path / "run"
    first = start(*TRAIN, folder)
    assert wait_until(lambda: has_checkpoint(folder), first)
    with paused(first):
        before = files_in(tmp_path)
        for options in ((), ("--resume",), ("--overwrite",)):
            assert invoke(*TRAIN, folder, *options) == (1, "", in_use(folder))
        assert files_in(tmp_path) == before
        kill(first)
    status, said, errors = invoke(*TRAIN, folder)
    assert (status, said, errors.count("\n")) == (1, "", 1)
    assert f"{folder} holds a run of demo-float@2 (checkpoints/step-" in errors
    assert errors.endswith("; --resume goes on with it, --overwrite begins anew\n")
    assert not (folder / ".lock").exists()


def test_the_lock_of_a_process_that_was_killed_goes_with_the_next_one(tmp_path):
    ancestor, job = job_with_ancestor(BINARY, seed=0, out=tmp_path, initial=None)
    train_on_noise([ancestor])
    for folder in (ancestor.folder, job.folder):
        (folder / ".lock").touch()  # as SIGKILL leaves it
    status, _, errors = invoke("train", BINARY.name, "--out", tmp_path, "--resume")
    assert (status, errors) == (0, "")
    assert not list(tmp_path.rglob(".lock"))


def test_a_second_campaign_is_turned_away(tmp_path):
    command = ("campaign", "demo", "--only", "demo-float", "--out", tmp_path)
    folder = tmp_path / "runs" / "demo-float" / "seed0"
    first = start(*command)
    wait_for_line(first, "begins at epoch 0")
    with paused(first):
        assert invoke(*command) == (1, "", in_use(folder))
        assert invoke("train", "demo-float", "--out", folder) == (1, "", in_use(folder))
    first.send_signal(signal.SIGTERM)
    status, said, errors = finish(first)
    assert (status, errors) == (143, "")
    assert "1 stopped with a checkpoint" in said


@pytest.mark.slow
def test_ranks_share_their_folder_and_are_turned_away_together(tmp_path):
    with sole_use([tmp_path / "run"], Ranks()):
        status, _, errors = run(*TRAIN, tmp_path / "run", num_ranks=2)
    assert status == 1
    assert errors.count(in_use(tmp_path / "run")) == 2
    status, _, errors = run(*TRAIN, tmp_path / "run", num_ranks=2)
    assert status == 0, errors
    assert (tmp_path / "run" / RESULT_NAME).is_file()
