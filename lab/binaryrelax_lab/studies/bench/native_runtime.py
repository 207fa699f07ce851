"""Packed networks in our own runtime, binaryrelax_native, which may not be installed."""

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax_lab.studies.bench.packed_effort import MODES, Mode
from binaryrelax_lab.studies.bench.rivals import Run

NATIVE = "binaryrelax-native"  # the distribution


def native_runtime() -> Any | None:
    """The module, where it is installed and can run whole networks."""
    try:
        module = import_module("binaryrelax_native")
    except ImportError:
        return None
    return module if hasattr(module, "load") else None


def native_files(packed: nn.Module, calibration: Tensor, folder: Path) -> dict[Mode, Path]:
    """The packed network as programs, by mode."""
    from binaryrelax import export_native

    files = {mode: folder / f"{mode}.brx" for mode in MODES}
    for mode, file in files.items():
        ranges = calibration if mode == "fast" else None
        export_native(packed, calibration[:1], file, mode=mode, calibration=ranges)
    return files


def uncalibrated_file(packed: nn.Module, example: Tensor, file: Path) -> Path:
    """The packed network in mode fast without ranges: each image gets its own, layer by layer."""
    from binaryrelax import export_native

    export_native(packed, example, file, mode="fast")
    return file


def native_run(file: Path) -> Run:
    """A program with as many threads as torch."""
    runtime = native_runtime()
    assert runtime is not None  # asked before
    network = runtime.load(file, threads=torch.get_num_threads())
    return lambda x: network(x.numpy())
