"""Packed networks on a CPU: time beside float and beside other run times, error, files, memory.

(a) Linear layers at batch 1 and 64, many copies in turn so that no weight is in a cache
(b) the convolutions of ResNet-18, one after the other, at batch 1
(c) ResNet-18 as a whole at batch 1
(d) ResNet-18 and ResNet-20 with all settings as they come, at batch 1 and 16
(e) files: packed against float32
(f) peak memory: loading and running

ONNX Runtime and OpenVINO run what `binaryrelax.packed.export` has written, and take part where they
are installed: pip install '.[onnx,openvino]' in the source folder.
"""

import os
from typing import Any

import torch

from binaryrelax.lab.bench.packed_effort import Effort
from binaryrelax.lab.bench.packed_linear import measure_call, measure_linear
from binaryrelax.lab.bench.packed_memory import measure_memory
from binaryrelax.lab.bench.packed_resnet import (
    measure_as_it_comes,
    measure_convolutions,
    measure_files,
    measure_network,
)
from binaryrelax.lab.bench.timing import Say, describe_cpu
from binaryrelax.packed.engines import native

# torch's bfloat16 products use AMX where a CPU claims to have it, and die of an illegal instruction
# on virtual machines that do not let it through.
WITHOUT_AMX = ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def bench_packed(say: Say, effort: Effort | None = None) -> dict[str, Any]:
    """All measurements, as the content of ``packed.json``."""
    effort = effort or Effort()
    os.environ.setdefault(*WITHOUT_AMX)
    before = torch.get_num_threads()
    torch.set_num_threads(effort.threads)
    module = native()
    report: dict[str, Any] = {
        "machine": describe_cpu(),
        "native": None if module is None else module.instruction_sets()[-1],
        "repetitions": effort.repetitions,
    }
    say(f"machine: {report['machine']}, native kernels: {report['native']}")
    try:
        with torch.inference_mode():
            report["layer_call_seconds"] = measure_call()
            report["linear"] = list(measure_linear(say, effort))
            report["convolutions"] = measure_convolutions(say, effort)
            report["network"] = measure_network(say, effort)
            report["as_it_comes"] = measure_as_it_comes(say, effort)
            report["files"] = measure_files()
        report["memory"] = measure_memory(effort.memory_layers, effort.memory_width)
    finally:
        torch.set_num_threads(before)
    for part in ("files", "memory"):
        for record in report[part]:
            say(f"  {part}: " + "  ".join(f"{k} {v}" for k, v in record.items()))
    return report
