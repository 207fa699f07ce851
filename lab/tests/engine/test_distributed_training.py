import os
import signal
import time
from pathlib import Path

import pytest
import torch
from lab.tests.support import rank_worker
from lab.tests.support.command import (
    children_of,
    evidence,
    finish,
    run,
    start,
    wait_for_line,
)

from binaryrelax_lab.engine import Machine

COMMAND = ("train", "demo-ternary", "--epochs", "2", "--checkpoint-every", "1")


def held_by_ranks(folder, num_ranks):
    """What each rank of a real run holds at its end."""
    status, _, errors = run(folder, module="lab.tests.support.rank_worker", num_ranks=num_ranks)
    assert status == 0, errors
    return [torch.load(folder / f"{rank}.pt") for rank in range(num_ranks)]


def check_ranks(folder, num_ranks):
    """The same bits on all ranks, also if they go on after a pause; gradients as on one process."""
    ranks = held_by_ranks(folder, num_ranks)
    expected = ranks[0]["whole"]
    for held in (rank[kind] for rank in ranks for kind in ("whole", "resumed")):
        assert held.keys() == expected.keys()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in held.items())
    alone = rank_worker.gradients(Machine())
    for rank in ranks:
        for step, mean in zip(rank["gradients"], alone, strict=True):
            torch.testing.assert_close(step, mean, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_two_ranks_hold_the_same_bits_and_step_by_the_mean_over_images(tmp_path):
    check_ranks(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [3, 4])
def test_more_ranks_hold_the_same_bits_and_step_by_the_mean_over_images(num_ranks, tmp_path):
    check_ranks(tmp_path, num_ranks)


@pytest.fixture(scope="module", params=[2, 4])
def whole_run(request, tmp_path_factory):
    """The number of ranks, what the command said, and what it left behind."""
    out = tmp_path_factory.mktemp("whole")
    status, said, errors = run(*COMMAND, "--out", out, num_ranks=request.param)
    assert status == 0, errors
    return request.param, said, evidence(out / "demo-float@2"), evidence(out)


@pytest.mark.slow
def test_ranks_report_once(whole_run):
    _, said, _, _ = whole_run
    assert said.count("[1/2] demo-float@2") == said.count("[2/2] demo-ternary@2") == 1
    assert said.count("epoch 1/2") == said.count("epoch 2/2") == 2
    assert said.count("weights in Q") == 1


@pytest.mark.slow
def test_ranks_stopped_by_sigterm_go_on_to_the_same_bits(whole_run, tmp_path):
    num_ranks, _, float_evidence, own_evidence = whole_run
    for words in ("[1/2] demo-float@2", "[2/2] demo-ternary@2"):
        process = start(*COMMAND, "--out", tmp_path, "--resume", num_ranks=num_ranks)
        wait_for_line(process, words)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        status, said, _ = finish(process)
        assert status != 0
        assert said.count("A checkpoint was written") == 1
    status, said, errors = run(*COMMAND, "--out", tmp_path, "--resume", num_ranks=num_ranks)
    assert status == 0, errors
    assert said.count("resumed at epoch") == 1
    assert evidence(tmp_path / "demo-float@2") == float_evidence
    assert evidence(tmp_path) == own_evidence


def ranks_of(process):
    """The processes that torchrun has started, in the order of their ranks."""
    ranks = {}
    for pid in children_of(process.pid):
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for entry in environment:
            if entry.startswith(b"RANK="):
                ranks[int(entry.removeprefix(b"RANK="))] = pid
    return [ranks[rank] for rank in sorted(ranks)]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_run_with_an_error(victim, tmp_path):
    process = start("train", "demo-float", "--out", tmp_path, num_ranks=2)
    wait_for_line(process, "[1/1] demo-float")
    time.sleep(1)
    ranks = ranks_of(process)
    assert len(ranks) == 2
    os.kill(ranks[victim], signal.SIGKILL)
    killed_at = time.monotonic()
    status, _, errors = finish(process)
    assert status != 0
    assert time.monotonic() - killed_at < 60
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)
    assert "Signal 9 (SIGKILL)" in errors
