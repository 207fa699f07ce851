"""Tries the networks that are shipped on the test images, from their packed files.

python tools/try_networks.py --data DIR        writes results/findings/networks.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from binaryrelax.lab.data import load_dataset
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.packing import accuracy_of, load_packed_run
from finding import write_finding

ROOT = Path(__file__).parents[1]


def main() -> None:
    """What `binaryrelax certify FILE --accuracy` says, for all files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    records = []
    for file in sorted((ROOT / "networks").glob("*.safetensors")):
        model, dataset = load_packed_run(file)
        data = load_dataset(dataset, data=options.data)
        records.append({"file": file.name, "accuracy": accuracy_of(model, data, Machine())})
        print(records[-1])
    write_finding("networks", records)


if __name__ == "__main__":
    main()
