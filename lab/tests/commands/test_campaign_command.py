"""`binaryrelax campaign` on the table of the demo."""

import re
import signal
import subprocess
import sys

from lab.tests.support.command import app
from typer.testing import CliRunner

from binaryrelax_lab.engine.checkpoint import checkpoints
from binaryrelax_lab.recipes import TABLES


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_campaign_ends_in_time_with_checkpoints_and_goes_on(tmp_path):
    """Five seconds each time; fifteen are kept for checkpoints."""
    command = ("campaign", "demo", "--jobs", 2, "--seeds", 2, "--only", "*binary")
    result = invoke(*command, "--out", tmp_path, "--minutes", 20 / 60)
    assert result.exit_code == 0, result.output
    assert "4 of 4 runs are to be done" in result.stdout
    assert "demo-float seed 1: begins at epoch 0\n" in result.stdout
    assert "0 runs finished, 2 stopped with a checkpoint, 2 not begun" in result.stdout
    folders = [tmp_path / "runs" / "demo-float" / f"seed{seed}" for seed in (0, 1)]
    saved = [checkpoints(folder)[0].name for folder in folders]

    result = invoke(*command, "--out", tmp_path, "--minutes", 20 / 60)
    assert result.exit_code == 0, result.output
    assert re.search(r"demo-float seed 1: begins at epoch (?!0\n)", result.stdout)
    assert all(checkpoints(f)[0].name >= name for f, name in zip(folders, saved, strict=True))


def test_signal_ends_a_campaign_with_checkpoints(tmp_path):
    options = ("--only", "demo-float", "--out", tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "binaryrelax", "campaign", "demo", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if "begins at epoch 0" in line:
            process.send_signal(signal.SIGTERM)
            break
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "")
    assert "1 stopped with a checkpoint" in said
    assert checkpoints(tmp_path / "runs" / "demo-float" / "seed0")


def test_results_stay_although_a_campaign_has_failed(tmp_path):
    """Missing images stand for any failure: what there was before is not lost."""
    name = TABLES["cifar10"].recipes[0].name
    result_file = tmp_path / "out" / "results" / "cifar10" / name / "seed0.json"
    result_file.parent.mkdir(parents=True)
    result_file.write_text("{}")
    result = invoke("campaign", "cifar10", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "give its folder with --data" in result.stderr
    assert "30 of 30 runs are to be done" in result.stdout  # its network is not there
    assert result_file.read_text() == "{}"
