"""Reads thousands of damaged and forged packed files and counts what came of it.

    python -m tools.fuzz_packed --mutants 20000 --out results/fuzz/packed.json

Exit status 1 if a file crashed a reader, was accepted though changed, or took too much memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors
import torch
from tests.packed.damage import DAMAGE
from tests.packed.mutants import fuzz, limit_memory, originals

MEMORY = 256 * 2**20  # bytes that reading all files may take beyond what the process has


def main() -> int:
    """Fuzz, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    counts = counted(options.mutants, options.seed)
    text = json.dumps(counts, indent=2) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    else:
        print(text)
    return 1 if counts["failures"] else 0


def counted(num_mutants: int, seed: int) -> dict[str, Any]:
    """Outcomes by kind of mutation; the kinds that forge digests are marked."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        path = Path(folder)
        sizes = {name: len(original.content) for name, original in originals(path).items()}
        fuzz(200, path, first_seed=-1000)  # what is imported and cached only once is so now
        limit_memory(MEMORY)
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.monotonic()
        tally = fuzz(num_mutants, path, first_seed=seed)
        seconds = time.monotonic() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    totals = sum((Counter(outcomes) for outcomes in tally.outcomes.values()), Counter())
    return {
        "mutants": num_mutants,
        "seed": seed,
        "outcomes": dict(totals),
        "damage": {kind: dict(tally.outcomes[kind]) for kind in tally.outcomes if kind in DAMAGE},
        "forgery": {
            kind: dict(tally.outcomes[kind]) for kind in tally.outcomes if kind not in DAMAGE
        },
        "failures": tally.failures,
        "seconds": round(seconds, 1),
        "longest_seconds": round(tally.longest_seconds, 3),
        "memory_limit_mb": MEMORY // 2**20,
        "memory_grown_mb": round(grown / 1024, 1),
        "file_bytes": sizes,
        "versions": {"torch": torch.__version__, "safetensors": safetensors.__version__},
    }


if __name__ == "__main__":
    sys.exit(main())
