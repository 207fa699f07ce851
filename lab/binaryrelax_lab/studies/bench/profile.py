"""The native runtime layer by layer: how much of what one core could multiply does it reach?

The peak is that of the CPU's instruction for products of bytes, measured on registers alone. A
layer's work is counted as if every output were computed by itself: a kernel that saves products
can pass the peak.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.native_runtime import NATIVE, native_files, native_runtime
from binaryrelax_lab.studies.bench.networks import BUSY, FOLDER
from binaryrelax_lab.studies.bench.subjects import SUBJECTS, Subject, images_for, twins
from binaryrelax_lab.studies.bench.timing import describe_cpu, vector_instructions

NETWORKS = ("resnet18", "resnet18-imagenet")
WEIGHTS = "ternary"
REPETITIONS = 200
PEAKS = 10  # measured before each network and after, since a core's clock moves


def bench_profile(
    say: Say,
    folder: Path = FOLDER,
    *,
    networks: Sequence[str] = NETWORKS,
    repetitions: int = REPETITIONS,
) -> dict[str, Any]:
    """The least times of every step in mode fast, one image and one thread, as ``profile.json``.

    Args:
        folder: of the trained networks.
        networks: those of `bench networks` that are profiled.
        repetitions: of which a step's least time counts.

    Raises:
        ValueError: our runtime is not installed.
    """
    runtime = native_runtime()
    if runtime is None:
        raise ValueError(f"bench profile needs {NATIVE}: pip install ./native in the source folder")
    subjects = [subject for subject in SUBJECTS if subject.network in networks]
    machine = describe_cpu()
    profiles = [_profile(say, runtime, subject, folder, repetitions) for subject in subjects]
    return {
        "machine": machine | {"threads": 1},
        "instructions": vector_instructions(),
        "native": runtime.instruction_sets()[-1],
        "weights": WEIGHTS,
        "repetitions": repetitions,
        "networks": profiles,
        "machine_was_shared": machine["load"] > BUSY,
    }


def _profile(
    say: Say, runtime: Any, subject: Subject, folder: Path, repetitions: int
) -> dict[str, Any]:
    images, pair = images_for(subject, None), twins(subject, WEIGHTS, folder)
    x = images.timed[:1]
    with TemporaryDirectory() as written:
        file = native_files(pair.packed, images.calibration, Path(written))["fast"]
        network = runtime.load(file, threads=1)
    peaks = [runtime.int8_peak() for _ in range(PEAKS)]
    rounds = [network.profile(x.numpy()) for _ in range(repetitions)]
    peaks += [runtime.int8_peak() for _ in range(PEAKS)]
    macs = multiply_additions(pair.floats, x)
    seconds = least_seconds(rounds, macs.keys())
    steps = [{"name": n, "macs": macs.get(n, 0), "seconds": s} for n, s in seconds.items()]
    say(f"{subject.network}, {subject.side} pixels a side: {_told(steps, max(peaks))}")
    return {
        "network": subject.network,
        "side": subject.side,
        "int8_peak": max(peaks),
        "steps": steps,
    }


def least_seconds(
    rounds: Sequence[Sequence[tuple[str, float]]], layers: Collection[str]
) -> dict[str, float]:
    """By the name of each step, its least time; what prepares or follows a layer counts as its own.

    Args:
        rounds: what `Network.profile` gave, time after time.
        layers: whose steps may have names such as "LAYER: tiles".
    """
    found: dict[str, list[float]] = {}
    for steps in rounds:
        together: dict[str, float] = {}
        for name, milliseconds in steps:
            layer = name.partition(": ")[0]
            key = layer if layer in layers else name
            together[key] = together.get(key, 0.0) + milliseconds / 1e3
        for key, seconds in together.items():
            found.setdefault(key, []).append(seconds)
    return {name: min(times) for name, times in found.items()}


def _told(steps: list[dict[str, Any]], peak: float) -> str:
    seconds, macs = (sum(step[key] for step in steps) for key in ("seconds", "macs"))
    return f"{1e3 * seconds:.3f} ms, {100 * macs / seconds / peak:.0f} % of the peak"


def multiply_additions(model: nn.Module, images: torch.Tensor) -> dict[str, int]:
    """By the name of each convolution and matrix, how many products its outputs are the sums of."""
    kinds = (nn.Conv2d, nn.Linear)
    names = {layer: name for name, layer in model.named_modules() if isinstance(layer, kinds)}
    found: dict[str, int] = {}

    def count(layer: Any, _: Any, output: torch.Tensor) -> None:
        found[names[layer]] = output.numel() * layer.weight[0].numel()

    handles = [layer.register_forward_hook(count) for layer in names]
    with torch.inference_mode():
        model(images)
    for handle in handles:
        handle.remove()
    return found
