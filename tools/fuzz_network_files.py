"""Reads and runs thousands of damaged and forged files of networks under sanitizers.

    python -m tools.fuzz_network_files --files 20000 --out results/fuzz/network_files.json
    python -m tools.fuzz_network_files --kind forge_growth --seed 17 --files 1 --keep mutant.brx

Needs CMake and a C++ compiler. Exit status 1 if a file made the reader or the runtime crash, touch
memory that is not theirs, wait, take too much memory, or if a change went unseen.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import select
import struct
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from native.tests.network_files import networks
from native.tests.network_mutants import KINDS, LIES, mutant
from tests.packed.damage import DAMAGE
from tests.packed.forgery import FORGERY

ROOT = Path(__file__).parents[1]
PATIENCE = 20  # seconds for one file, far more than any should take
MEMORY = 768  # MB that the driver may take; sanitizers take two or three times what a program does
FINE = ("refused", "same", "sound")  # other outcomes are failures
SANITIZERS = {
    "ASAN_OPTIONS": f"hard_rss_limit_mb={MEMORY}:max_allocation_size_mb={MEMORY // 2}:"
    "quarantine_size_mb=32:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def main() -> int:
    """Fuzz, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first of a kind")
    parser.add_argument("--kind", choices=KINDS, help="of mutation; all in turn if not given")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="writes the last mutant there")
    parser.add_argument("--driver", type=Path, metavar="PROGRAM", help="built already")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else list(KINDS)
    jobs = [(kinds[i % len(kinds)], options.seed + i // len(kinds)) for i in range(options.files)]
    if options.keep:
        options.keep.write_bytes(mutant(*jobs[-1], networks())[1])
    counts = counted(jobs, options.driver or built_driver())
    text = json.dumps(counts, indent=2) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    else:
        print(text)
    return 1 if counts["failures"] else 0


def built_driver() -> Path:
    """The driver, built with the sanitizers.

    Raises:
        RuntimeError: it cannot be built.
    """
    script = ROOT / "native" / "sanitize"
    done = subprocess.run([script, "build"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{script} build failed: {done.stderr[-2000:]}")
    return Path(done.stdout.strip()) / "fuzz_network_files"


class Driver:
    """The sanitized program, started again when a file has ended it."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.environment = {**os.environ, **SANITIZERS}
        self.start()

    def start(self) -> None:
        """Starts the program."""
        self.errors = TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=self.environment,
        )

    def verdict(self, content: bytes) -> str:
        """What the program says of a file, or what became of the program."""
        assert self.process.stdin and self.process.stdout
        line = b""
        try:
            self.process.stdin.write(struct.pack("<I", len(content)) + content)
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                self.process.kill()
                return self._ended("took too long")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            pass
        return line.decode().rstrip("\n") if line.endswith(b"\n") else self._ended("crashed")

    def memory_mb(self) -> float:
        """The most that the program has taken since it was started."""
        status = Path(f"/proc/{self.process.pid}/status")
        found = re.search(r"VmHWM:\s*(\d+)", status.read_text()) if status.exists() else None
        return round(int(found.group(1)) / 1024, 1) if found else 0.0

    def _ended(self, how: str) -> str:
        problem = f"{how}: {self.close() or 'without a report'}"
        self.start()
        return problem

    def close(self) -> str:
        """Ends the program; gives what the sanitizers had to say."""
        self.process.communicate()
        self.errors.seek(0)
        report = self.errors.read().decode(errors="replace")
        self.errors.close()
        found = re.search(r"runtime error: .*|SUMMARY: .*|hard rss limit .*", report)
        summary = found.group() if found else report[-300:].replace("\n", " ")
        frames = re.findall(r"#\d+ 0x\w+ in (.*?) /\S*/native/(src/\S+)", report)
        return summary + "".join(f"; {name} {place}" for name, place in frames[:4])


@dataclass
class Tally:
    """Outcomes of many files."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    runs: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    longest_seconds: float = 0.0

    def add(self, kind: str, seed: int, outcome: str, run: str) -> None:
        """Counts one file."""
        self.outcomes[kind][outcome if outcome in FINE else "failure"] += 1
        if run:
            self.runs[run] += 1
        if outcome not in FINE:
            self.failures.append(f"{kind} {seed}: {outcome}")


def fuzz(jobs: Iterable[tuple[str, int]], driver: Driver) -> Tally:
    """What came of the mutants of these kinds and seeds."""
    files, tally = networks(), Tally()
    originals = {name: digest_of(driver.verdict(content)) for name, content in files.items()}
    for number, (kind, seed) in enumerate(jobs, start=1):
        if number % 1000 == 0:
            print(f"{number} files, {len(tally.failures)} failures", file=sys.stderr)
        name, content = mutant(kind, seed, files)
        start = time.monotonic()
        verdict = driver.verdict(content)
        tally.longest_seconds = max(tally.longest_seconds, time.monotonic() - start)
        tally.add(kind, seed, outcome_of(kind, verdict, originals[name]), run_of(verdict))
    return tally


def digest_of(verdict: str) -> str:
    """Of all that was read from a sound file.

    Raises:
        RuntimeError: the file is not sound, or does not run.
    """
    if not run_of(verdict).startswith("ran"):
        raise RuntimeError(f"an original does not run: {verdict}")
    return verdict.split()[1]


def run_of(verdict: str) -> str:
    """What running a sound file came to, in a word or two; nothing if it is not sound."""
    if not verdict.startswith("ok "):
        return ""
    return verdict.partition(": ")[2].partition(": ")[0]


def outcome_of(kind: str, verdict: str, original: str) -> str:
    """One of ``FINE``, or what is wrong."""
    if verdict.startswith("refused: "):
        return "refused" if len(verdict) < 1000 else f"error of {len(verdict)} characters"
    if not verdict.startswith("ok ") or run_of(verdict) == "wrong":
        return verdict
    if verdict.split()[1] == original:
        return "same"
    return "changed content accepted" if kind in DAMAGE else "sound"


def counted(jobs: list[tuple[str, int]], program: Path) -> dict[str, Any]:
    """Outcomes by kind of mutation."""
    driver, start = Driver(program), time.monotonic()
    tally = fuzz(jobs, driver)
    memory_mb, last_words = driver.memory_mb(), driver.close()
    if last_words:
        tally.failures.append(f"at the end: {last_words}")
    totals = sum(tally.outcomes.values(), Counter[str]())
    by_kind = {kind: dict(outcomes) for kind, outcomes in tally.outcomes.items()}
    return {
        "files": len(jobs),
        "seeds": [min(seed for _, seed in jobs), max(seed for _, seed in jobs)],
        "outcomes": dict(totals),
        "runs": dict(tally.runs),
        "damage": {kind: by_kind[kind] for kind in DAMAGE if kind in by_kind},
        "forgery": {kind: by_kind[kind] for kind in FORGERY if kind in by_kind},
        "lies": {kind: by_kind[kind] for kind in LIES if kind in by_kind},
        "failures": tally.failures,
        "seconds": round(time.monotonic() - start, 1),
        "longest_seconds": round(tally.longest_seconds, 3),
        "memory_limit_mb": MEMORY,
        "memory_mb": memory_mb,
        "file_bytes": {name: len(content) for name, content in networks().items()},
        "machine": processor(),
    }


def processor() -> str:
    """What the CPU is called: it decides which kernels run."""
    path = Path("/proc/cpuinfo")
    found = re.search("model name\\s*: (.*)", path.read_text()) if path.exists() else None
    return found.group(1) if found else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
