"""A process of its own that runs an exported network: a run time may take its process down.

    python -P runtime_child.py RUNTIME FILE FOLDER SETTINGS

FOLDER has inputs as ``K.npz``; outputs go to ``S-K.npz`` for the S-th of SETTINGS, a JSON list.
``isolated_runtime.py`` starts it. It imports NumPy and the run time alone, so that it starts fast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[list[Any]], list[Any]]  # arrays in, arrays out


def load_in_onnxruntime(file: str, options: dict[str, str]) -> Run:
    """ONNX Runtime with its own settings; it has no others."""
    import onnxruntime

    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(file, quiet, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=True)))


def load_in_openvino(file: str, options: dict[str, str]) -> Run:
    """OpenVINO's CPU plugin."""
    import openvino

    network = openvino.Core().compile_model(file, "CPU", options)
    return lambda inputs: list(network(inputs).to_tuple())


def load_in_native(file: str, options: dict[str, str]) -> Run:
    """Our own runtime."""
    network = import_module("binaryrelax_native").load(file)

    def run(inputs: list[Any]) -> list[Any]:
        outputs = network(*inputs)
        return list(outputs) if isinstance(outputs, tuple) else [outputs]

    return run


LOADERS = {
    "onnxruntime": load_in_onnxruntime,
    "openvino": load_in_openvino,
    "binaryrelax_native": load_in_native,
}


def main(runtime: str, file: str, folder: str, settings: str) -> None:
    """Load the network with each of the settings and run all inputs."""
    if runtime not in LOADERS:
        raise ValueError(f"there is no run time {runtime!r}, only {' and '.join(LOADERS)}")
    for place, options in enumerate(json.loads(settings)):
        run = LOADERS[runtime](file, options)
        for path in sorted(Path(folder).glob("[0-9].npz")):
            with np.load(path) as content:
                outputs = run([content[name] for name in content.files])
            named = {f"{index:03}": output for index, output in enumerate(outputs)}
            np.savez(Path(folder, f"{place}-{path.name}"), **named)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(" ".join(str(error).split())[:300])
