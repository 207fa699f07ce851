"""What it takes to answer one image and go: seconds from the start of a process, and its memory."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench import first_answer


@dataclass(frozen=True)
class Start:
    """A process to begin.

    Args:
        engine: a function of the script.
        file: the network, as that engine reads it.
        network: its name, channels and classes, for those that build it themselves.
    """

    engine: str
    file: Path
    network: Sequence[object] = ()


def first_answers(
    say: Say, starts: Mapping[str, Start], images: Path, threads: int, repetitions: int
) -> list[dict[str, Any]]:
    """One record per engine; they take turns, and the first round only warms the file cache."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in starts}
    for _ in range(1 + repetitions):
        for name, start in starts.items():
            found[name].append(_first_answer(start, images, threads))
    records = []
    for name, answers in found.items():
        seconds = [answer["seconds"] for answer in answers[1:]]
        peaks = [answer["peak_mb"] for answer in answers[1:]]
        records.append(
            {
                "engine": name,
                "seconds": min(seconds),
                "median_seconds": statistics.median(seconds),
                "peak_mb": None if None in peaks else max(peaks),
            }
        )
        say(
            f"  first answer, {name}: {1e3 * min(seconds):.0f} ms, peak {records[-1]['peak_mb']} MB"
        )
    return records


def _first_answer(start: Start, images: Path, threads: int) -> dict[str, Any]:
    words = (start.engine, start.file, images, threads, *start.network)
    command = [sys.executable, "-P", first_answer.__file__, *map(str, words)]
    begun = time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise ValueError(f"bench networks: {start.engine} gave no first answer: {why[0]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return {"seconds": answer["answered"] - begun, "peak_mb": answer["peak_mb"]}
