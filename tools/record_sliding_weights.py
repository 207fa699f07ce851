"""Trains the demo's ternary network and keeps how a layer's weights slide into Q: two minutes.

    python tools/record_sliding_weights.py      writes results/findings/sliding-weights.json

`tools/fill_figures.py` draws docs/images/sliding-weights.svg and phases.svg from that file.
"""

from __future__ import annotations

from pathlib import Path

from binaryrelax_lab.engine import one_thread
from binaryrelax_lab.studies.finding import write_finding
from binaryrelax_lab.studies.sliding_weights import sliding_weights_of_the_demo

OUT = Path(__file__).parents[1] / "results" / "findings" / "sliding-weights.json"

if __name__ == "__main__":
    with one_thread():
        write_finding(OUT, sliding_weights_of_the_demo(print))
    print(f"written to {OUT.relative_to(OUT.parents[2])}")
