"""Packs networks of other libraries and compares them with what they were.

    python -m tools.zoo huggingface --out results/zoo/huggingface.json
    python -m tools.zoo timm --only 'vit*' --device cuda --out results/zoo/timm.json

Exit status 1 if any network differs. tests/peers/comparison.py tells what is compared; torchvision,
which timm needs, is no part of the tested set, so timm is for machines that have it.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tests.peers.comparison import compare
from tests.peers.network import Network

import binaryrelax
from binaryrelax import Binary, TernaryThreshold
from binaryrelax.packed.engines import native
from binaryrelax_lab.engine.bf16_on_cpu import make_bf16_safe
from binaryrelax_lab.engine.environment import describe_sources
from binaryrelax_lab.studies.bench.timing import describe_cpu

LIBRARIES = {
    "huggingface": "tests.peers.transformers_networks",
    "timm": "tests.peers.timm_networks",
}
QUANTIZERS = (TernaryThreshold(), Binary())


def main() -> int:
    """Compare, print a line for each network, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of networks")
    parser.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu or cuda")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    make_bf16_safe()
    torch.backends.cudnn.allow_tf32 = False  # or float32 would not be float32
    torch.backends.cudnn.deterministic = True
    found = import_module(LIBRARIES[options.library]).networks()
    networks = [network for network in found if fnmatch(network.name.lower(), options.only.lower())]
    if not networks:
        parser.error(f"--only {options.only} matches none of {[n.name for n in found]}")
    content: dict[str, Any] = {"environment": environment(options.device), "rows": []}
    for row in compared(networks, options.device):
        content["rows"].append(row)
        if options.out:  # after every row: a run that is cut off has not been for nothing
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if any(row["status"].startswith("DIFFERS") for row in content["rows"]) else 0


def compared(networks: list[Network], device: str) -> Iterator[dict[str, Any]]:
    """The rows, printed as they come."""
    with TemporaryDirectory() as folder:
        for network in networks:
            for quantizer in QUANTIZERS:
                start = time.monotonic()
                row = compare(network, quantizer, Path(folder), device)
                took = f"{time.monotonic() - start:.1f} s"
                print(f"{network.name}, {quantizer}, {took}: {row['status']}", flush=True)
                yield row


def environment(device: str) -> dict[str, Any]:
    """What has to be known to repeat it."""
    on_gpu = torch.device(device).type == "cuda"
    return {
        "binaryrelax": binaryrelax.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "native": native() is not None,
        "device": torch.cuda.get_device_name(device) if on_gpu else describe_cpu()["cpu"],
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **describe_sources(Path(binaryrelax.__file__)),
    }


if __name__ == "__main__":
    sys.exit(main())
