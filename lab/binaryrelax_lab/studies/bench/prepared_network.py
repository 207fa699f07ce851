"""A network, made ready for every engine that shall run it."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import nn

from binaryrelax import accelerate, set_mode
from binaryrelax_lab.studies.bench.integer_rivals import (
    engine_rivals,
    in_channels_last,
    missing_engines,
    onnx_files,
    torch_int8,
)
from binaryrelax_lab.studies.bench.native_runtime import (
    native_files,
    native_run,
    native_runtime,
    uncalibrated_file,
)
from binaryrelax_lab.studies.bench.packed_effort import MODES, Mode
from binaryrelax_lab.studies.bench.rivals import Run
from binaryrelax_lab.studies.bench.subjects import QUANTIZERS, Images, Subject, Twins, twins

UNCALIBRATED = "ours, fast, not calibrated"
FLOATS = next(iter(QUANTIZERS))  # which weights run in engines that know no packed ones


@dataclass(frozen=True, eq=False)
class Side:
    """An engine that runs the network with weights of that width."""

    engine: str
    weights: str
    run: Run

    @property
    def name(self) -> str:
        """Of both."""
        return f"{self.engine}, {self.weights}"


@dataclass(eq=False)
class PreparedNetwork:
    """A network with weights of every width, and its files.

    Args:
        trained: the folder of the trained networks.
        folder: where files may be left.
    """

    subject: Subject
    images: Images
    trained: Path
    folder: Path

    @cached_property
    def pairs(self) -> dict[str, Twins]:
        """The network packed and as floats, by the width of its weights."""
        return {weights: twins(self.subject, weights, self.trained) for weights in QUANTIZERS}

    @cached_property
    def programs(self) -> dict[str, dict[Mode, Path]]:
        """The files of our runtime, by width and mode; none where it is missing."""
        if native_runtime() is None:
            return {}
        calibration = self.images.calibration
        return {
            weights: native_files(pair.packed, calibration, self._new_folder(weights))
            for weights, pair in self.pairs.items()
        }

    def onnx(self, weights: str, batch: int) -> dict[str, Path]:
        """The files of the other engines, by precision; none where they are missing."""
        if "ONNX Runtime" in missing_engines():
            return {}
        folder = self._new_folder(f"{weights}, {batch}")
        return onnx_files(self.pairs[weights].floats, self.images.calibration, batch, folder)

    def our_sides(self) -> Iterator[Side]:
        """Our runtime in both modes and with all widths."""
        for weights, files in self.programs.items():
            for mode, file in files.items():
                yield Side(f"ours, {mode}", weights, native_run(file))

    def uncalibrated_sides(self) -> Iterator[Side]:
        """Our runtime in mode fast, where it has to find the ranges of each image."""
        if native_runtime() is None:
            return
        for weights, pair in self.pairs.items():
            file = self._new_folder(weights) / "uncalibrated.brx"
            example = self.images.calibration[:1]
            run = native_run(uncalibrated_file(pair.packed, example, file))
            yield Side(UNCALIBRATED, weights, run)

    def packed_sides(self) -> Iterator[Side]:
        """The packed PyTorch model, called with no setting touched but its mode."""
        for weights, pair in self.pairs.items():
            for mode in MODES:
                model = deepcopy(pair.packed)
                set_mode(model, mode)
                yield Side(f"packed model, {mode}", weights, model)

    def accelerated_sides(self) -> Iterator[Side]:
        """The same, run by our runtime behind its calls; none where that is missing."""
        if native_runtime() is None:
            return
        images = self.images.calibration
        for weights, pair in self.pairs.items():
            for mode in MODES:
                ranges = images if mode == "fast" else None
                model = accelerate(deepcopy(pair.packed), images[:1], mode=mode, calibration=ranges)
                yield Side(f"accelerated model, {mode}", weights, model)

    def torch_sides(self) -> Iterator[Side]:
        """PyTorch with the weights as floats, and rounded to 8 bits."""
        floats = self.pairs[FLOATS].floats
        yield float_side(FLOATS, floats)
        yield Side("torch int8", FLOATS, torch_int8(floats, self.images.calibration))

    def rival_sides(self, batch: int, weights: str = FLOATS) -> Iterator[Side]:
        """The other engines, which take that many images at a time and no others."""
        for engine, run in engine_rivals(self.onnx(weights, batch)).items():
            yield Side(engine, weights, run)

    def _new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder


def float_side(weights: str, floats: nn.Module) -> Side:
    """torch in float32, at its best: in channels_last."""
    model = deepcopy(floats).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Side("torch float32", weights, partial(in_channels_last, model))
