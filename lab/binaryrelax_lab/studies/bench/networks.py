"""Whole packed networks on a CPU beside what a user would pick instead: int8 above all.

The networks are the packed files in the folder `networks`. Every engine runs the same weights: the
float engines those of the file, unpacked; the int8 ones these weights rounded to 8 bits. Images are
the embedded ones, made as large and as colourful as the network wants; training images calibrate
int8, test images are timed. Errors are of the output, relative to the float network in float64.

ONNX Runtime and OpenVINO take part where they are installed: pip install '.[onnx,openvino]' in the
source folder. One that is missing is said, and named in the file.
"""

import os
import statistics
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax import PackedLayer, certify
from binaryrelax.packed.engines import native
from binaryrelax_lab.data import IMAGE_SHAPES, NUM_CLASSES, load_fashion_mnist
from binaryrelax_lab.models import build_network
from binaryrelax_lab.packing import load_packed_run
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.integer_rivals import EXTRAS, integer_rivals, missing_engines
from binaryrelax_lab.studies.bench.packed import error_of, in_mode, kernels_alone
from binaryrelax_lab.studies.bench.packed_effort import MODES, bound, told
from binaryrelax_lab.studies.bench.timing import all_apart, describe_cpu

FOLDER = Path("networks")
BATCHES, REPETITIONS, THREADS = (1, 16), 15, 2
NUM_CALIBRATION = 128  # images; a multiple of all batch sizes
BUSY = 0.5  # a load before the first measurement above which others were at work
DISTRIBUTIONS = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}


def bench_networks(
    say: Say,
    folder: Path = FOLDER,
    batches: tuple[int, ...] = BATCHES,
    repetitions: int = REPETITIONS,
) -> dict[str, Any]:
    """All measurements, as the content of ``networks.json``."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"bench networks: no packed network in {folder}/; run it in the source")
    before, module, missing = torch.get_num_threads(), native(), missing_engines()
    torch.set_num_threads(THREADS)
    report: dict[str, Any] = {
        "machine": describe_cpu(),
        "native": None if module is None else module.instruction_sets()[-1],
        "engines": {e: version(d) for e, d in DISTRIBUTIONS.items() if e not in missing},
        "missing": missing,
        "repetitions": repetitions,
    }
    for engine in missing:
        say(f"{engine} is left out: pip install '.[{EXTRAS[engine]}]' in the source folder")
    try:
        report["records"] = [
            record
            for file in files
            for batch in batches
            for record in measure_file(say, file, batch, repetitions)
        ]
    finally:
        torch.set_num_threads(before)
    load = report["machine"]["load"]
    return report | {"load_after": os.getloadavg()[0], "machine_was_shared": load > BUSY}


def measure_file(say: Say, file: Path, batch: int, repetitions: int) -> list[dict[str, Any]]:
    """One record per engine for a packed network and a batch size."""
    certificate = certify(file)
    about, codebook = certificate.about, certificate.layers[0].codebook
    packed, dataset = load_packed_run(file)
    floats = float_network(packed, about["network"], dataset)
    calibration, images = images_for(about, dataset)
    x = images[:batch]
    rivals = integer_rivals(floats, calibration, batch)  # tracing needs autograd's views
    with torch.inference_mode():
        exact = floats.double()(x.double())
        floats = floats.float().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        sides = _torch_sides(floats, packed, x)
        sides |= {name: bound(run, x) for name, run in rivals.items()}
        errors = {name: error_of(call(), exact) for name, call in sides.items()}
        seconds = all_apart(sides, repetitions)
    records = []
    for name, times in seconds.items():
        record = {
            "file": file.name,
            "network": about["network"],
            "weights": "1 bit" if len(codebook) == 2 else "ternary",
            "batch": batch,
            "engine": name,
            "seconds": min(times),
            "median_seconds": statistics.median(times),
            "error": errors[name],
        }
        say(f"  {file.stem}, batch {batch}: {told(record)}")
        records.append(record)
    return records


def _torch_sides(
    floats: nn.Module, packed: nn.Module, images: Tensor
) -> dict[str, Callable[[], Any]]:
    x = images.contiguous(memory_format=torch.channels_last)
    sides = {"torch float32": bound(floats, x)}
    sides |= {f"packed, {mode}": bound(in_mode(packed, mode), x) for mode in MODES}
    alone = kernels_alone(in_mode(packed, "fast"), torch.get_num_threads())
    return sides | {"packed, fast, kernel threads set": bound(alone, x)}


def float_network(packed: nn.Module, network: str, dataset: str) -> nn.Module:
    """The same network with its packed weights as float32 ones."""
    model = build_network(network, IMAGE_SHAPES[dataset][0], NUM_CLASSES[dataset])
    weights = {
        f"{name}.weight": layer.weight.detach()
        for name, layer in packed.named_modules()
        if isinstance(layer, PackedLayer)
    }
    state = {**packed.state_dict(), **weights}
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model.eval()


def images_for(about: dict[str, str], dataset: str) -> tuple[Tensor, Tensor]:
    """Embedded training and test images, padded and normalised as the network wants them."""
    data = load_fashion_mnist()
    channels, size, _ = IMAGE_SHAPES[dataset]
    mean, deviation = (
        torch.tensor([float(value) for value in about[key].split()]).view(channels, 1, 1)
        for key in ("mean", "deviation")
    )

    def made(pixels: Tensor) -> Tensor:
        grey = pixels.permute(0, 3, 1, 2).float() / 255
        border = (size - grey.shape[-1]) // 2
        wide = nn.functional.pad(grey, [border] * 4).expand(-1, channels, -1, -1)
        return ((wide - mean) / deviation).contiguous()

    return made(data.train_images[:NUM_CALIBRATION]), made(data.test_images[: max(BATCHES)])
