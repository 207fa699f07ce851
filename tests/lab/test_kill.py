import random
import shutil
import time

import pytest

from tests.lab.command import evidence, finish, kill, run, start, wait_until
from tests.lab.tiny_command import train_both

NUM_KILLS = 20
COMMAND = ("train", "demo-ternary", "--epochs", "2", "--checkpoint-every", "1", "--resume")


def is_writing(out):
    """Whether a file of the run is half written at the moment."""
    return any(out.rglob(".*.part"))


def has_checkpoint(out):
    return any(out.rglob("step-*.ckpt"))


def test_killed_twice_a_run_ends_with_the_same_bits(tmp_path):
    train_both(tmp_path / "whole")
    out = tmp_path / "killed"
    first = start(out, module="tests.lab.tiny_command")
    assert wait_until(lambda: has_checkpoint(out), first)
    assert wait_until(lambda: is_writing(out), first)
    kill(first)
    second = start(out, module="tests.lab.tiny_command")
    assert wait_until(lambda: has_checkpoint(out / "checkpoints"), second)
    kill(second)
    train_both(out)
    assert evidence(out) == evidence(tmp_path / "whole")
    assert not is_writing(out)


@pytest.mark.slow
def test_killed_at_twenty_moments_the_command_ends_with_the_same_bits(tmp_path):
    """Runs are killed and resumed until they are through, and begun anew until all kills are done.

    A third of the kills wait for a file to be half written; at least one must come in time.
    """
    assert run(*COMMAND, "--out", tmp_path / "whole")[0] == 0
    expected = evidence(tmp_path / "whole")
    moments, num_kills, num_torn, out = random.Random(0), 0, 0, tmp_path / "killed"
    while num_kills < NUM_KILLS:
        process = start(*COMMAND, "--out", out)
        delay = moments.uniform(2, 6)
        time.sleep(delay)
        if num_kills % 3 == 2:
            wait_until(lambda: is_writing(out), process)
        if process.poll() is None:
            kill(process)
            num_kills += 1
            num_torn += is_writing(out)
        else:
            status, _, errors = finish(process)
            assert (status, errors) == (0, "")
            assert evidence(out) == expected
            shutil.rmtree(out)
    assert run(*COMMAND, "--out", out)[0] == 0
    assert evidence(out) == expected
    print("TORN", num_torn)
    assert num_torn > 0
