"""Kernels over random shapes, forged files and threads, under the sanitizers.

CI takes the first twentieth of what ``python -m tools.fuzz_network_files`` takes in full.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native.tests.network_files import networks

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "native" / "sanitize"
NUM_FILES = 1000
HAS_TOOLS = shutil.which("cmake") and shutil.which("c++")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TOOLS, reason="needs cmake and a C++ compiler")
def test_no_kernel_reads_or_writes_elsewhere():
    done = subprocess.run([SCRIPT, "45"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "shapes" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TOOLS, reason="needs cmake and a C++ compiler")
def test_threads_that_call_one_network_do_not_race(tmp_path):
    for name, content in networks().items():
        (tmp_path / f"{name}.brx").write_bytes(content)
    files = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [SCRIPT, "threads", *files], capture_output=True, text=True, timeout=900, check=False
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer for data races does not run on this kernel")
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stdout.count(" 0 changed") == len(files)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TOOLS, reason="needs cmake and a C++ compiler")
def test_a_twentieth_of_the_forged_files_neither_crash_nor_deceive(tmp_path):
    out = tmp_path / "network_files.json"
    arguments = ["--files", str(NUM_FILES), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz_network_files", *arguments],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=600,
    )
    counts = json.loads(out.read_text()) if out.exists() else {}
    assert done.returncode == 0, counts.get("failures") or done.stderr[-2000:]
    assert counts["files"] == sum(counts["outcomes"].values()) == NUM_FILES
    assert counts["outcomes"]["refused"] > NUM_FILES / 2 and counts["runs"]["ran"] > NUM_FILES / 20
