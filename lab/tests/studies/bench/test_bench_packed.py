"""`binaryrelax bench packed`, made small: every part is measured, and right."""

import json
import subprocess
import sys

import pytest

from binaryrelax.packed.engines import native


@pytest.mark.slow
def test_every_engine_computes_the_same_and_is_timed():
    command = [sys.executable, "-m", "lab.tests.support.small_packed_bench"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    content = json.loads(done.stdout.splitlines()[-1])
    report = content["report"]
    engines = {record["engine"] for record in report["linear"]}
    assert {"torch float32", "1 bit, exact", "2 bits, exact"} <= engines
    if native() is not None:
        assert {"1 bit, fast", "2 bits, fast"} <= engines
    for record in (*report["linear"], *report["network"]):
        rounds = any(word in record["engine"] for word in ("fast", "Runtime 2", "VINO 2", "bfloat"))
        assert record["seconds"] > 0
        assert record["error"] < (0.05 if rounds else 1e-5), record
    assert len(report["convolutions"]) == 5
    records = report["as_it_comes"]
    cases = {(r["network"], r["batch"], r["images"], r["weights"]) for r in records}
    assert len(cases) == 16 and len(records) == 3 * 16
    by_name = {record["file"]: record["times_smaller"] for record in report["files"]}
    assert by_name["1 bit, batch normalization folded"] > 30
    assert by_name["2 bits, batch normalization folded"] > 19
    in_float, *packed = report["memory"]  # 64 MB of weights; packed ones are too small to be seen
    assert in_float["weights"] == "float32" and 50 < in_float["run_mb"] < 80
    assert all(0 <= record["loaded_mb"] <= record["run_mb"] for record in packed)
    assert content["lines_said"] > 20
