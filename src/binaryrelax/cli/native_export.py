"""`binaryrelax export --to native`: calibrated, tried in the runtime, and then written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from binaryrelax.cli.errors import UsageError
from binaryrelax.export.native import native_file
from binaryrelax.export.native_trial import difference_in_runtime
from binaryrelax.packed.atomic_writing import write_atomically

MODES = ("fast", "exact")
NUM_CALIBRATION = 128  # images of a data set; more of them hardly change a range
NUM_TRIED = 16


@dataclass(frozen=True)
class Exported:
    """A packed network, and what is known of it.

    Args:
        example: of its input.
        about: what its file says.
        training_images: loads so many from a folder; None where nobody knows its data set.
    """

    model: nn.Module
    example: Tensor
    about: Mapping[str, str]
    training_images: Callable[[Path, int], Tensor] | None = None


def export_tried(network: Exported, path: Path, mode: str, calibration: Path | None) -> list[str]:
    """Writes the file once the runtime has agreed with torch; gives what there is to say of it."""
    if mode not in MODES:
        raise UsageError(f"--mode {mode}: there are {' and '.join(MODES)}")
    if mode == "exact" and calibration is not None:
        raise UsageError("--calibration is for --mode fast: exact activations are not rounded")
    images = None if calibration is None else _calibration_images(network, calibration)
    content = native_file(network.model, network.example, mode, images, network.about)
    tried = network.example if images is None else images[:NUM_TRIED]
    difference = difference_in_runtime(network.model, tried, content, mode)
    write_atomically(path, content)
    return [
        _told(mode, images),
        _agreement(difference),
        f"next    python -m binaryrelax_native {path} images.npy",
    ]


def _told(mode: str, images: Tensor | None) -> str:
    if mode == "exact":
        return "mode    exact: activations stay float32"
    if images is None:
        return (
            "mode    fast: activations in 8 bits, their ranges measured anew in every image; "
            "--calibration fixes them"
        )
    return f"mode    fast: activations in 8 bits, their ranges those of {len(images):,} images"


def _agreement(difference: float | None) -> str:
    if difference is None:
        return (
            "agrees  not tried: binaryrelax-native is not installed; "
            "pip install ./native in the source folder"
        )
    return (
        f"agrees  in the runtime, outputs are within {difference:.1e} of the largest one in torch"
    )


def _calibration_images(network: Exported, path: Path) -> Tensor:
    if path.suffix == ".npy":
        return _images_in(path, tuple(network.example.shape[1:]))
    if network.training_images is None:
        raise ValueError(
            f"--calibration {path}: nobody knows the data set of this network; give an .npy file "
            "with images as it takes them, float32 (N, C, H, W)"
        )
    return network.training_images(path, NUM_CALIBRATION)


def _images_in(path: Path, shape: tuple[int, ...]) -> Tensor:
    try:
        images = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"--calibration {path} is no intact .npy file ({reason})") from None
    if images.dtype.kind != "f" or images.ndim != 1 + len(shape) or not len(images):
        wanted = ", ".join(map(str, ("N", *shape)))
        raise ValueError(
            f"--calibration {path} holds {images.dtype} of the shape {images.shape}; images must "
            f"be as the network takes them, float32 ({wanted}), normalised as in training"
        )
    return torch.from_numpy(images.astype(np.float32))
