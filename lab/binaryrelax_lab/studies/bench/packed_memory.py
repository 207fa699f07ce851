"""Peak memory of float and packed networks, each measured in a process of its own."""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from binaryrelax import load_packed, pack, save_packed, select_weights
from binaryrelax.packed.engines import torch_only
from binaryrelax_lab.studies.bench.own_process import answer, in_own_process, memory_megabytes
from binaryrelax_lab.studies.bench.packed_effort import SETS


def measure_memory(num_layers: int, width: int) -> list[dict[str, Any]]:
    """One record per way to hold `num_layers` Linear layers: megabytes to load and to run them."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        model = _network(num_layers, width)
        save_file(model.state_dict(), path)
        records.append(
            {"weights": "float32"} | in_own_process(__name__, "float", path, num_layers, width)
        )
        for title, quantizer in SETS.items():
            model = _network(num_layers, width)
            weights = select_weights(model, quantizer)
            for weight in weights:
                weight.data = quantizer.project(weight.data)
            save_packed(pack(model, weights), path)
            for engine in ("native", "torch"):
                measured = in_own_process(__name__, engine, path, num_layers, width)
                records.append({"weights": f"{title}, {engine} kernels"} | measured)
    return records


def _network(num_layers: int, width: int) -> nn.Module:
    return nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(num_layers)]).eval()


def _measure(engine: str, path: Path, num_layers: int, width: int) -> dict[str, float]:
    """Megabytes that loading and one run add to the peak of a process that has done neither."""
    with torch.device("meta"):
        model = _network(num_layers, width)
    x = torch.ones(1, width)
    nn.Linear(8, 8)(torch.ones(1, 8))  # what torch sets up once
    before = memory_megabytes("VmHWM")
    if engine == "float":
        model.load_state_dict(load_file(path), assign=True)
    else:
        load_packed(path, model)
    loaded = memory_megabytes("VmHWM")
    with torch.inference_mode(), torch_only() if engine == "torch" else nullcontext():
        model(x)
    return {"loaded_mb": loaded - before, "run_mb": memory_megabytes("VmHWM") - before}


if __name__ == "__main__":
    engine, path, num_layers, width = sys.argv[1:]
    answer(_measure(engine, Path(path), int(num_layers), int(width)))
