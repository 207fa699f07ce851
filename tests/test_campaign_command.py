"""`binaryrelax campaign`: from one folder to another, on the table of the demo."""

import re
import signal
import subprocess
import sys

from typer.testing import CliRunner

from binaryrelax.cli import app
from binaryrelax.lab.engine.checkpoint import checkpoints
from binaryrelax.lab.recipes import TABLES
from binaryrelax.lab.transfer import _Part


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_campaign_moves_from_one_machine_to_another(tmp_path):
    """Five seconds here and five there; fifteen are kept for checkpoints."""
    here, there, state = (tmp_path / name for name in ("here", "there", "state"))
    command = ("campaign", "demo", "--jobs", 2, "--seeds", 2, "--only", "*binary")
    result = invoke(*command, "--out", here, "--minutes", 20 / 60, "--export-state", state)
    assert result.exit_code == 0, result.output
    assert "4 of 4 runs are to be done" in result.stdout
    assert "demo-float seed 1: begins at epoch 0\n" in result.stdout
    assert "0 runs finished, 2 stopped with a checkpoint, 2 not begun" in result.stdout
    assert f"state     {state} (1 parts)" in result.stdout
    saved = [checkpoints(here / "runs" / "demo-float" / f"seed{seed}")[0] for seed in (0, 1)]

    result = invoke(*command, "--out", there, "--minutes", 20 / 60, "--import-state", state)
    assert result.exit_code == 0, result.output
    assert "2 files taken over" in result.stdout
    assert re.search(r"demo-float seed 1: begins at epoch (?!0\n)", result.stdout)
    for path in saved:
        assert checkpoints(there / path.relative_to(here).parents[1])[0].name >= path.name


def test_damaged_state_is_one_line_and_changes_nothing(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state"
    command = ("campaign", "demo", "--minutes", 0)
    assert invoke(*command, "--out", tmp_path / "x", "--export-state", state).exit_code == 0
    [part] = state.rglob("*.part")
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    result = invoke(*command, "--out", out, "--import-state", state)
    assert result.exit_code == 1
    assert result.stderr == f"binaryrelax: {part} is damaged; export and copy it again\n"
    assert not list(out.rglob("*"))


def test_export_that_was_cut_off_is_noted(tmp_path):
    state = tmp_path / "state"
    command = ("campaign", "demo", "--minutes", 0)
    assert invoke(*command, "--out", tmp_path / "x", "--export-state", state).exit_code == 0
    (state / "newer.part").write_bytes(_Part(0, 2, "0" * 64, b"the first of two").as_bytes())
    result = invoke(*command, "--out", tmp_path / "out", "--import-state", state)
    assert result.exit_code == 0, result.output
    assert f"note: {state}: of 2 parts, number 1 is missing: that export is left" in result.stdout


def test_signal_ends_a_campaign_with_checkpoints_and_an_export(tmp_path):
    options = ("--out", tmp_path / "out", "--export-state", tmp_path / "state")
    command = ("-m", "binaryrelax", "campaign", "demo", "--only", "demo-float", *options)
    process = subprocess.Popen(
        [sys.executable, "-u", *map(str, command)],
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
    assert list((tmp_path / "state").rglob("*.part"))
    assert checkpoints(tmp_path / "out" / "runs" / "demo-float" / "seed0")


def test_state_is_exported_although_a_run_has_failed(tmp_path):
    """Missing images stand for any failure: what there was before is not lost."""
    out, state = tmp_path / "out", tmp_path / "state"
    result_file = out / "results" / "cifar10" / TABLES["cifar10"].recipes[0].name / "seed0.json"
    result_file.parent.mkdir(parents=True)
    result_file.write_text("{}")
    result = invoke(
        "campaign", "cifar10", "--data", tmp_path, "--out", out, "--export-state", state
    )
    assert result.exit_code == 1
    assert "give its folder with --data" in result.stderr
    assert "30 of 30 runs are to be done" in result.stdout  # its network is not there
    assert result_file.name.encode() in next(state.rglob("*.part")).read_bytes()
