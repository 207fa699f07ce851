"""Kernels and networks, built with sanitizers for memory, undefined behaviour and data races."""

import shutil
import subprocess
from pathlib import Path

import pytest
from native.tests.network_files import networks

SCRIPT = Path(__file__).parents[1] / "sanitize"
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
