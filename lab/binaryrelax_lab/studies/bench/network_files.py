"""What a network weighs as a file, and how soon a new process has its first answer from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from binaryrelax import save_packed
from binaryrelax_lab.data import IMAGE_SHAPES, NUM_CLASSES
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.cold_start import Start, first_answers
from binaryrelax_lab.studies.bench.integer_rivals import missing_engines
from binaryrelax_lab.studies.bench.prepared_network import FLOATS, PreparedNetwork


def measure_files(network: PreparedNetwork) -> Iterator[dict[str, Any]]:
    """One record per file."""
    for name, file in _files(network).items():
        yield {
            "network": network.subject.network,
            "dataset": network.subject.dataset,
            "file": name,
            "bytes": file.stat().st_size,
        }


def _files(network: PreparedNetwork) -> dict[str, Path]:
    files = {"float32": _float_file(network)}
    for weights in network.pairs:
        files[f"packed model, {weights}"] = _packed_file(network, weights)
    for weights, programs in network.programs.items():
        files |= {f"ours, {mode}, {weights}": file for mode, file in programs.items()}
    return files | {f"ONNX {p}": file for p, file in network.onnx(FLOATS, 1).items()}


def measure_first_answers(
    say: Say, network: PreparedNetwork, repetitions: int
) -> list[dict[str, Any]]:
    """One record per engine: seconds from the start of a process, and its peak memory."""
    subject, images = network.subject, network.folder / "images.npy"
    np.save(images, network.images.timed[:1].numpy())
    build = (subject.network, IMAGE_SHAPES[subject.dataset][0], NUM_CLASSES[subject.dataset])
    starts = {"Python and numpy alone": Start("nothing", images)}
    for mode, file in network.programs.get(FLOATS, {}).items():
        starts[f"ours, {mode}"] = Start("native", file)
    starts["packed model"] = Start("torch_packed", _packed_file(network, FLOATS), build)
    starts["torch float32"] = Start("torch_float32", _float_file(network), build)
    for precision, file in network.onnx(FLOATS, 1).items():
        starts[f"ONNX Runtime {precision}"] = Start("onnx_runtime", file)
        if "OpenVINO" not in missing_engines():
            starts[f"OpenVINO {precision}"] = Start("openvino", file)
    return first_answers(say, starts, images, torch.get_num_threads(), repetitions)


def _float_file(network: PreparedNetwork) -> Path:
    file = network.folder / "float.safetensors"
    save_file(network.pairs[FLOATS].floats.state_dict(), file)
    return file


def _packed_file(network: PreparedNetwork, weights: str) -> Path:
    file = network.folder / f"packed, {weights}.safetensors"
    save_packed(network.pairs[weights].packed, file)
    return file
