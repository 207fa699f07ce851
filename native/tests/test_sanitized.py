"""The kernels over random shapes, built with the address and undefined-behaviour sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "sanitize"
HAS_TOOLS = shutil.which("cmake") and shutil.which("c++")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TOOLS, reason="needs cmake and a C++ compiler")
def test_no_kernel_reads_or_writes_elsewhere():
    done = subprocess.run([SCRIPT, "45"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "shapes" in done.stdout
