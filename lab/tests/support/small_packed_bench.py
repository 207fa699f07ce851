"""`binaryrelax bench packed`, made small; a process of its own, as the command is one."""

import json
import sys

from binaryrelax_lab.studies.bench.packed import bench_packed
from binaryrelax_lab.studies.bench.packed_effort import Effort

SMALL = Effort(
    linear=((64, 48),),
    batches=(1, 3),
    images=(1, 2),
    repetitions=1,
    bytes_in_turn=1 << 15,
    memory_layers=4,
    memory_width=2048,
)

if __name__ == "__main__":
    said = []
    report = bench_packed(said.append, SMALL)
    sys.stdout.write(json.dumps({"report": report, "lines_said": len(said)}))
