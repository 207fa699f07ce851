"""Takes random networks from packing to every engine and counts what came of it.

    python -m tools.fuzz_networks --networks 500 --jobs 2 --out results/fuzz/networks.json
    python -m tools.fuzz_networks --networks 1 --seed 17   # one network again, stage by stage

Network K of a run is that of seed + K. Exit status 1 if one differs or crashes.
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
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tests.packed.random_networks import FINE, judge, reason
from tests.support.done_once import read_sources_of_onnxscript_once
from tools.judging_workers import judged

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime", "openvino", "safetensors")


def main() -> int:
    """Fuzz, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first network")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="networks at a time")
    parser.add_argument("--no-export", action="store_true", help="pack, save and load only")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.networks)
    start, results = time.monotonic(), []
    for result in judged(seeds, options.jobs, work, not options.no_export):
        results.append(result)
        report(result, len(results), options.networks, time.monotonic() - start)
    counts = counted(sorted(results, key=lambda result: result["seed"]), options.seed)
    counts["seconds"] = round(time.monotonic() - start, 1)
    counts |= {"jobs": options.jobs, "exported": not options.no_export, **machine()}
    text = json.dumps(counts, indent=2, ensure_ascii=False) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    else:
        print(text)
    return 1 if counts["failures"] else 0


def work(connection: Connection, export: bool) -> None:
    """The life of a worker: a seed comes in, a result goes out."""
    torch.set_num_threads(1)
    read_sources_of_onnxscript_once()
    with TemporaryDirectory() as folder, suppress(EOFError, BrokenPipeError):
        while True:  # until the command closes its end
            connection.send(judge(connection.recv(), Path(folder), export=export))


def failures_of(result: dict[str, Any]) -> list[str]:
    """A line for each stage that failed, with a way to see it again."""
    return [
        f"{stage} {found['outcome']}: {found['detail']} [{', '.join(result['traits'])}]; "
        f"python -m tools.fuzz_networks --seed {result['seed']} --networks 1"
        for stage, found in result["stages"].items()
        if found["outcome"] not in FINE
    ]


def report(result: dict[str, Any], number: int, total: int, seconds: float) -> None:
    """Progress; failures as they come, and of a network alone every stage."""
    if total == 1:
        print(f"seed {result['seed']}: {', '.join(result['traits'])}", file=sys.stderr)
        for stage, found in result["stages"].items():
            detail = found.get("detail", "")
            print(f"  {stage}: {found['outcome']} {detail}".rstrip(), file=sys.stderr)
        return
    for line in failures_of(result):
        print(f"\r{line}", file=sys.stderr)
    end = "\n" if number == total or not sys.stderr.isatty() else ""
    if end == "" or number % 25 == 0 or number == total:
        print(f"\r{number} of {total} networks, {seconds:.0f} s", end=end, file=sys.stderr)


def counted(results: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Outcomes by stage, refusals by reason, and how many networks had what."""
    stages: dict[str, Counter[str]] = defaultdict(Counter)
    refusals: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for stage, found in result["stages"].items():
            stages[stage][found["outcome"]] += 1
            if found["outcome"] == "refused":
                refusals[stage][reason(found["detail"])].append(result["seed"])
    whole = [r for r in results if all(f["outcome"] == "agrees" for f in r["stages"].values())]
    traits = Counter(trait for result in results for trait in result["traits"])
    return {
        "networks": len(results),
        "seed": seed,
        "agree_everywhere": len(whole),
        "stages": {stage: dict(sorted(found.items())) for stage, found in stages.items()},
        "refusals": {stage: most_common(found) for stage, found in refusals.items()},
        "failures": [line for result in results for line in failures_of(result)],
        "traits": dict(sorted(traits.items())),
        "longest_seconds": max((result["seconds"] for result in results), default=0.0),
    }


def most_common(found: dict[str, list[int]]) -> dict[str, dict[str, int]]:
    """Reason -> how many networks, and the first of them."""
    ordered = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return {reason: {"count": len(seeds), "seed": seeds[0]} for reason, seeds in ordered}


def machine() -> dict[str, Any]:
    """Versions and processor."""
    versions = {name: version(name) for name in PACKAGES}
    return {"versions": {"python": platform.python_version(), **versions}, "cpu": processor()}


def processor() -> str:
    """Its name, and whether it has what engines choose their precision by."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    found = {key.strip(): value.strip() for key, value in found.items()}
    flags = {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"}
    known = sorted(flags & set(found.get("flags", "").split()))
    return f"{found.get('model name', platform.machine())} ({', '.join(known)})"


if __name__ == "__main__":
    sys.exit(main())
