"""The runtime on 64-bit ARM, under an emulator; in full: ``python -m tools.check_aarch64``."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("cmake", "c++", "aarch64-linux-gnu-g++", "qemu-aarch64")
COMMAND = [sys.executable, "-m", "tools.check_aarch64"]


def test_what_is_missing_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        COMMAND,
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path / "empty")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "aarch64-linux-gnu-g++" in done.stderr and "apt-get install" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}")
def test_networks_give_the_same_bits(tmp_path):
    out = tmp_path / "aarch64.json"
    arguments = ["--count", "10", "--files", "100", "--out", str(out)]
    done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, out.read_text() if out.exists() else done.stderr[-2000:]
    found = json.loads(out.read_text())
    assert found["instruction_sets"] == ["portable", "dotprod"]
    assert found["runs"]["fast, dotprod"] > 2 and found["forged_files"]["ok"] > 10
