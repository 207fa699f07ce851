"""Measurements of memory, each in a process of its own that has done nothing else."""

import json
import subprocess
import sys
from pathlib import Path


def in_own_process(module: str, *arguments: object) -> dict[str, float]:
    """What ``python -m module arguments`` prints as JSON."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def answer(found: dict[str, float]) -> None:
    """Hands the result to the process that has asked for it."""
    sys.stdout.write(json.dumps(found))


def memory_megabytes(field: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process.

    Not getrusage's: a process begins with the peak of the one that has started it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        raise ValueError("a bench measures memory by /proc/self/status, so on Linux only")
    lines = [line.split() for line in status.read_text().splitlines()]
    return next(int(words[1]) for words in lines if words[:1] == [f"{field}:"]) / 1024
