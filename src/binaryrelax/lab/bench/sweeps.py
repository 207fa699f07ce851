"""Time and memory of the bracketed sweep and of the full one, its reference.

Peak memory is that of a process: ``python -m binaryrelax.lab.bench.sweeps NAME BITS SIZE`` takes
one measurement and prints it as JSON.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from binaryrelax.lab.bench.timing import Say, normal_weights, timed
from binaryrelax.quantizers.sweep import bracketed_sweep, full_sweep

SWEEPS = {"bracketed": bracketed_sweep, "full": full_sweep}

Case = tuple[str, int, int]  # name, bits, number of weights


def measure_sweeps(say: Say, cases: Iterable[Case], repetitions: int) -> list[dict[str, Any]]:
    """One record per case, each measured in processes of its own."""
    runs: dict[Case, list[dict[str, float]]] = {case: [] for case in cases}
    for repetition in range(repetitions):
        for case in runs:
            say(f"(c) repetition {repetition + 1}: {case}")
            runs[case].append(_in_a_process(case))
    return [
        {
            "size": size,
            "bits": bits,
            "sweep": name,
            "seconds": statistics.median(run["seconds"] for run in measured),
            "megabytes": statistics.median(run["megabytes"] for run in measured),
        }
        for (name, bits, size), measured in runs.items()
    ]


def _in_a_process(case: Case) -> dict[str, float]:
    command = [sys.executable, "-m", "binaryrelax.lab.bench.sweeps", *map(str, case)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _measure(name: str, bits: int, size: int) -> dict[str, float]:
    """Time and peak memory above what the weights take, of one sweep in this process."""
    levels = torch.arange(2 ** (bits - 1), dtype=torch.float64)
    a = normal_weights(size).abs()[None]
    SWEEPS[name](a[:, :1000], levels)
    before = _memory_kilobytes("VmRSS")
    _, duration = timed(lambda: SWEEPS[name](a, levels))
    return {"seconds": duration, "megabytes": (_memory_kilobytes("VmHWM") - before) / 1024}


def _memory_kilobytes(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise ValueError("bench projection measures memory by /proc/self/status, so on Linux only")
    lines = [line.split() for line in status.read_text().splitlines()]
    return next(int(words[1]) for words in lines if words[:1] == [f"{field}:"])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
