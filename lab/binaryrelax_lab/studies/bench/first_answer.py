"""How long an engine takes from the start of its process to its first answer, and its peak memory.

A script that knows nothing of the lab: a process must import nothing but what its engine needs.

    python -P first_answer.py ENGINE FILE IMAGES.npy THREADS [NETWORK CHANNELS CLASSES]
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Array = Any


def nothing(file: str, images: Array, threads: int) -> object:
    """Python and numpy alone, which all need."""
    return images


def native(file: str, images: Array, threads: int) -> object:
    """Our runtime."""
    import binaryrelax_native

    return binaryrelax_native.load(file, threads=threads)(images)


def onnx_runtime(file: str, images: Array, threads: int) -> object:
    """ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})


def openvino(file: str, images: Array, threads: int) -> object:
    """OpenVINO."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    return openvino.Core().compile_model(file, "CPU", settings)(images)


def torch_float32(file: str, images: Array, threads: int, *network: str) -> object:
    """PyTorch, the weights as floats."""
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(threads)
    model = _network(*network)
    model.load_state_dict(load_file(file))
    with torch.inference_mode():
        return model.eval()(torch.from_numpy(images)).numpy()


def torch_packed(file: str, images: Array, threads: int, *network: str) -> object:
    """PyTorch with packed layers."""
    import torch

    from binaryrelax import load_packed

    torch.set_num_threads(threads)
    model = load_packed(file, _network(*network)).eval()
    with torch.inference_mode():
        return model(torch.from_numpy(images)).numpy()


def _network(name: str, channels: str, classes: str) -> Any:
    from binaryrelax_lab.models import build_network

    return build_network(name, int(channels), int(classes))


ENGINES = {
    engine.__name__: engine
    for engine in (nothing, native, onnx_runtime, openvino, torch_float32, torch_packed)
}


def peak_megabytes() -> float | None:
    """Of this process; None where the system has no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def main() -> None:
    """Prints the clock at the answer, which all processes share, and the memory."""
    engine, file, images, threads, *network = sys.argv[1:]
    ENGINES[engine](file, np.load(images), int(threads), *network)
    answered = time.monotonic()
    sys.stdout.write(json.dumps({"answered": answered, "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
