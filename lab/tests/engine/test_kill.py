import random
import shutil
import time

import pytest
from lab.tests.support.command import evidence, finish, kill, run, start, wait_until
from lab.tests.support.tiny_command import train_both

NUM_KILLS = 20
COMMAND = ("train", "demo-ternary", "--epochs", "2", "--checkpoint-every", "1", "--resume")


def half_written(out):
    """The files that are being written at the moment, or were when a process was killed."""
    return set(out.rglob(".*.part"))


def has_checkpoint(out):
    return any(out.rglob("step-*.ckpt"))


def test_killed_twice_a_run_ends_with_the_same_bits(tmp_path):
    train_both(tmp_path / "whole")
    out = tmp_path / "killed"
    first = start(out, module="lab.tests.support.tiny_command")
    assert wait_until(lambda: has_checkpoint(out), first)
    assert wait_until(lambda: half_written(out), first)
    kill(first)
    second = start(out, module="lab.tests.support.tiny_command")
    assert wait_until(lambda: has_checkpoint(out / "checkpoints"), second)
    kill(second)
    train_both(out)
    assert evidence(out) == evidence(tmp_path / "whole")
    assert not half_written(out)


@pytest.mark.slow
def test_killed_at_twenty_moments_the_command_ends_with_the_same_bits(tmp_path):
    """Runs are killed and resumed until they are through, and begun anew until all kills are done.

    A third of the kills wait for a file to be half written; at least half of them come in time.
    """
    assert run(*COMMAND, "--out", tmp_path / "whole")[0] == 0
    expected = evidence(tmp_path / "whole")
    moments, num_kills, torn, out = random.Random(0), 0, set(), tmp_path / "killed"
    while num_kills < NUM_KILLS:
        process = start(*COMMAND, "--out", out)
        time.sleep(moments.uniform(2, 6))
        if num_kills % 3 == 2:
            wait_until(lambda: half_written(out) - torn, process)
        if process.poll() is None:
            kill(process)
            num_kills += 1
            torn.update(half_written(out))
        else:
            status, _, errors = finish(process)
            assert (status, errors) == (0, "")
            assert evidence(out) == expected
            shutil.rmtree(out)
    assert run(*COMMAND, "--out", out)[0] == 0
    assert evidence(out) == expected
    assert len(torn) >= 3
