"""Lists which layers of Hugging Face's networks BinaryRelax quantizes by default.

python -m tools.chosen_layers --out results/zoo/chosen-layers.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.peers.chosen_layers import builders, row


def main() -> None:
    """Build each network and write a row for it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    rows = [row(name, make()) for name, make in builders().items()]
    options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
