"""Whole networks on a CPU: ours beside what a user would pick instead, int8 above all.

Every engine runs the same network: our runtime and PyTorch its packed weights, 1 bit and ternary;
torch, ONNX Runtime and OpenVINO the 1-bit ones as floats, and rounded to 8 bits. Errors are of the
output, relative to the float network in float64.

ONNX Runtime and OpenVINO take part where they are installed: pip install '.[onnx,openvino]' in the
source folder. One that is missing is said, and named in the file; so is our own runtime.
"""

import os
import statistics
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from binaryrelax.packed.engines import native
from binaryrelax_lab.data import ImageSet, load_dataset
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.integer_rivals import EXTRAS, missing_engines
from binaryrelax_lab.studies.bench.native_runtime import NATIVE, native_runtime
from binaryrelax_lab.studies.bench.network_accuracy import measure_accuracies
from binaryrelax_lab.studies.bench.network_files import measure_files, measure_first_answers
from binaryrelax_lab.studies.bench.packed import error_of
from binaryrelax_lab.studies.bench.packed_effort import bound, told
from binaryrelax_lab.studies.bench.prepared_network import PreparedNetwork
from binaryrelax_lab.studies.bench.runtime_sizes import measure_runtimes
from binaryrelax_lab.studies.bench.subjects import SUBJECTS, Subject, images_for
from binaryrelax_lab.studies.bench.timing import calls_apart, describe_cpu, vector_instructions

FOLDER, THREADS = Path("networks"), 2
BUSY = 0.5  # a load before the first measurement above which others were at work
OURS = "binaryrelax_native"
DISTRIBUTIONS = {
    OURS: NATIVE,
    "ONNX Runtime": "onnxruntime",
    "OpenVINO": "openvino",
    "torch": "torch",
}
ANSWERING = "resnet18"  # the network whose first answer is awaited
SMALL_FILE = Subject("resnet18", "cifar10")  # it is not timed: as fast as with 100 classes
PARTS = ("records", "files", "first_answers", "accuracies")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured.

    Args:
        repetitions: how often engines take turns.
        starts: how often each answers from a new process.
        runtimes: whose size is measured.
    """

    subjects: tuple[Subject, ...] = SUBJECTS
    batches: tuple[int, ...] = (1, 16)
    repetitions: int = 12
    starts: int = 7
    runtimes: tuple[str, ...] = tuple(DISTRIBUTIONS)


QUICK = Effort(
    subjects=SUBJECTS[:2],
    batches=(1,),
    repetitions=5,
    starts=2,
    runtimes=(OURS, "ONNX Runtime"),
)


def bench_networks(
    say: Say,
    folder: Path = FOLDER,
    *,
    data: Path | None = None,
    quick: bool = False,
    effort: Effort | None = None,
) -> dict[str, Any]:
    """All measurements, as the content of ``networks.json``.

    Args:
        folder: of the trained networks.
        data: where CIFAR is; int8 is then calibrated with its images, and accuracy is measured.
        quick: two networks, one image, few repetitions.
    """
    effort = effort or (QUICK if quick else Effort())
    before, module = torch.get_num_threads(), native()
    missing = missing_engines() + ([] if native_runtime() else [OURS])
    torch.set_num_threads(THREADS)
    report: dict[str, Any] = {
        "machine": describe_cpu(),
        "instructions": vector_instructions(),
        "native": None if module is None else module.instruction_sets()[-1],
        "engines": {e: version(d) for e, d in DISTRIBUTIONS.items() if e not in missing},
        "missing": missing,
        "repetitions": effort.repetitions,
        "starts": effort.starts,
        **{part: [] for part in PARTS},
    }
    for engine in missing:
        what = f"'.[{EXTRAS[engine]}]'" if engine in EXTRAS else "./native"
        say(f"{engine} is left out: pip install {what} in the source folder")
    try:
        for place, subject in enumerate(effort.subjects, start=1):
            say(
                f"{subject.network}, {subject.side} pixels a side "
                f"({place} of {len(effort.subjects)})"
            )
            for part, records in measure_network(say, subject, folder, data, effort).items():
                report[part] += records
        distributions = {engine: DISTRIBUTIONS[engine] for engine in effort.runtimes}
        report["runtimes"] = measure_runtimes(distributions)
    finally:
        torch.set_num_threads(before)
    load = report["machine"]["load"]
    return report | {"load_after": os.getloadavg()[0], "machine_was_shared": load > BUSY}


def measure_network(
    say: Say, subject: Subject, trained: Path, data: Path | None, effort: Effort
) -> Mapping[str, list[dict[str, Any]]]:
    """Everything about one network: records by the part of the report."""
    images = None if data is None else _own_images(say, subject, data)
    parts: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
    with TemporaryDirectory() as folder:
        network = PreparedNetwork(subject, images_for(subject, images), trained, Path(folder))
        for batch in effort.batches:
            parts["records"] += measure_times(say, network, batch, effort.repetitions)
        parts["files"] += measure_files(network)
        if images is not None:
            parts["accuracies"] += measure_accuracies(say, network, images)
        if subject.network == ANSWERING:
            parts["first_answers"] += measure_first_answers(say, network, effort.starts)
            (small := Path(folder) / "small").mkdir()
            parts["files"] += measure_files(
                PreparedNetwork(SMALL_FILE, images_for(SMALL_FILE, None), trained, small)
            )
    return parts


def measure_times(
    say: Say, network: PreparedNetwork, batch: int, repetitions: int
) -> Iterator[dict[str, Any]]:
    """One record per engine and width of weights."""
    x = network.images.timed[:batch]
    every = [  # before inference_mode: tracing needs autograd's views
        *network.our_sides(),
        *network.uncalibrated_sides(),
        *network.packed_sides(),
        *network.accelerated_sides(),
        *network.torch_sides(),
        *network.rival_sides(batch),
    ]
    with torch.inference_mode():
        exact = {
            weights: deepcopy(pair.floats).double()(x.double())
            for weights, pair in network.pairs.items()
        }
        sides = {side.name: bound(side.run, x) for side in every}
        errors = {side.name: error_of(side.run(x), exact[side.weights]) for side in every}
        seconds = calls_apart(sides, repetitions)
    for side in every:
        record = {
            "network": network.subject.network,
            "dataset": network.subject.dataset,
            "side": network.subject.side,
            "weights": side.weights,
            "batch": batch,
            "engine": side.engine,
            "seconds": min(seconds[side.name]),
            "median_seconds": statistics.median(seconds[side.name]),
            "error": errors[side.name],
        }
        say(f"  batch {batch:2}, {side.weights:7}: {told(record)}")
        yield record


def _own_images(say: Say, subject: Subject, data: Path) -> ImageSet | None:
    """What a trained network was trained on, if it is in the folder."""
    if not subject.files:
        return None
    try:
        images = load_dataset(subject.dataset, data=data)
    except ValueError as error:
        say(f"no accuracies of {subject.network}: {error}")
        return None
    assert isinstance(images, ImageSet)  # only those of CIFAR are trained networks
    return images
