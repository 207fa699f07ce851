"""Exports random networks for the native runtime and compares what it gives with torch.

    python -m tools.fuzz_programs --count 2000 --jobs 2 --out results/fuzz/programs.json
    python -m tools.fuzz_programs --count 1 --seed 17   # one network again, stage by stage

Network K of a run is that of seed + K. A run that was stopped goes on where it was: what it has
found lies beside the file that it will write. Exit status 1 if a network differs, is refused or
crashes; every network is one that the exporter must take.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import binaryrelax_native
import torch
from tests.export.random_programs import judge
from tools.fuzz_networks import processor
from tools.judging_workers import judged

PACKAGES = ("torch", "numpy")


def main() -> int:
    """Fuzz, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000, metavar="N", help="of networks")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first network")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="networks at a time")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    results = all_results(seeds, options.jobs, options.out)
    counts = {**counted(results), "seed": options.seed, **machine()}
    text = json.dumps(counts, indent=2, ensure_ascii=False) + "\n"
    if options.out:
        options.out.write_text(text)
        partial(options.out).unlink()
    else:
        print(text)
    return 1 if counts["failures"] else 0


def partial(out: Path) -> Path:
    """Where the results of a run lie until it ends."""
    return out.with_name(f"{out.name}.partial")


def all_results(seeds: range, jobs: int, out: Path | None) -> list[dict[str, Any]]:
    """What came of each network, by seed; with a file to write, of earlier runs too."""
    known: dict[int, dict[str, Any]] = {}
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial(out).touch()
        for line in partial(out).read_text().splitlines():
            with suppress(json.JSONDecodeError):  # the last may be cut off
                known[json.loads(line)["seed"]] = json.loads(line)
    left, start = [seed for seed in seeds if seed not in known], time.monotonic()
    for result in judged(left, jobs, work):
        known[result["seed"]] = result
        if out is not None:
            with partial(out).open("a") as lines:
                lines.write(json.dumps(result) + "\n")
        report(result, len([s for s in seeds if s in known]), len(seeds), time.monotonic() - start)
    return [known[seed] for seed in seeds]


def work(connection: Connection) -> None:
    """The life of a worker: a seed comes in, a result goes out."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder, suppress(EOFError, BrokenPipeError):
        while True:  # until the command closes its end
            connection.send(judge(connection.recv(), Path(folder)))


def failures_of(result: dict[str, Any]) -> list[str]:
    """A line for each stage that failed, with a way to see it again."""
    return [
        f"{stage} {found['outcome']}: {found['detail']} [{', '.join(result['traits'])}]; "
        f"python -m tools.fuzz_programs --seed {result['seed']} --count 1"
        for stage, found in result["stages"].items()
        if found["outcome"] != "agrees"
    ]


def report(result: dict[str, Any], number: int, total: int, seconds: float) -> None:
    """Progress; failures as they come, and of a network alone every stage."""
    if total == 1:
        print(f"seed {result['seed']}: {', '.join(result['traits'])}", file=sys.stderr)
        for stage, found in result["stages"].items():
            print(
                f"  {stage}: {found['outcome']} {found.get('detail', '')}".rstrip(), file=sys.stderr
            )
        return
    for line in failures_of(result):
        print(f"\r{line}", file=sys.stderr)
    if sys.stderr.isatty():
        bar = "#" * (30 * number // total)
        print(f"\r[{bar:30}] {number} of {total}, {seconds:.0f} s ", end="", file=sys.stderr)
    if number == total or (not sys.stderr.isatty() and number % 100 == 0):
        print(f"\r{number} of {total} networks, {seconds:.0f} s", file=sys.stderr)


def counted(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Outcomes by stage, how near the outputs were, and how many networks had what."""
    stages: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for stage, found in result["stages"].items():
            stages[stage][found["outcome"]] += 1
    traits = Counter(trait for result in results for trait in result["traits"])
    return {
        "networks": len(results),
        "agree_everywhere": sum(not failures_of(result) for result in results),
        "stages": {stage: dict(sorted(found.items())) for stage, found in stages.items()},
        "failures": [line for result in results for line in failures_of(result)],
        "errors": {mode: errors_of(mode, results) for mode in ("exact", "fast")},
        "traits": dict(sorted(traits.items())),
        "longest_seconds": max((result["seconds"] for result in results), default=0.0),
        "seconds_of_all": round(sum(result["seconds"] for result in results), 1),
    }


def errors_of(mode: str, results: list[dict[str, Any]]) -> dict[str, float]:
    """Found and allowed, as shares of the largest output, and the nearest that one came."""
    found = [r["errors"][mode] for r in results if mode in r.get("errors", ())]
    if not found:
        return {}
    errors, allowed = zip(*found, strict=True)
    return {
        "median": rounded(median(errors)),
        "largest": rounded(max(errors)),
        "median_allowed": rounded(median(allowed)),
        "largest_share_of_allowed": rounded(max(e / a for e, a in found)),
    }


def rounded(number: float) -> float:
    """To three digits."""
    return float(f"{number:.3g}")


def machine() -> dict[str, Any]:
    """Versions, processor, and what the runtime was run with."""
    versions = {name: version(name) for name in PACKAGES}
    return {
        "instruction_sets": binaryrelax_native.instruction_sets(),
        "versions": {"python": platform.python_version(), **versions},
        "cpu": processor(),
    }


if __name__ == "__main__":
    sys.exit(main())
