"""Finished runs as packed files, and packed files as networks again."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from binaryrelax import (
    Certificate,
    PackedFileError,
    Quantizer,
    certify,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.lab.data import IMAGE_SHAPES, NORMALISATIONS, NUM_CLASSES, ImageSource
from binaryrelax.lab.engine import FINAL_NAME, RESULT_NAME, Machine, read_json
from binaryrelax.lab.engine.evaluation import Evaluation
from binaryrelax.lab.engine.files import digest_of
from binaryrelax.lab.engine.recalibration import images_after_training, recalibrate
from binaryrelax.lab.models import build_network
from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.recipes.settings import parsed_settings
from binaryrelax.packed.file import PackedFile
from binaryrelax.packed.placement import place

PACKED_HEADINGS = ("Packed", "Bytes", "Smaller", "Certified", "Trained", "From the file")


@dataclass(frozen=True)
class PackedRun:
    """A finished run and the file that it was packed into.

    Args:
        method: "bwn", "binary", ...
        file: the packed network.
        certificate: what the file holds.
        trained: accuracy of the network as it was trained, after its last epoch.
        packed: accuracy of the network that was loaded from the file; None if not measured.
    """

    method: str
    file: Path
    certificate: Certificate
    trained: float
    packed: float | None = None

    def cells(self) -> tuple[str, ...]:
        """A row of the table under `PACKED_HEADINGS`."""
        saving = f"{self.certificate.saving:.1f}×"
        certified = "yes" if self.certificate.ok else "no"
        accuracies = [f"{a:.2f}" if a is not None else "-" for a in (self.trained, self.packed)]
        size = f"{self.certificate.file_bytes:,}"
        return METHOD_NAMES[self.method], size, saving, certified, *accuracies


def pack_run(
    folder: Path,
    file: Path,
    *,
    fold_batchnorm: bool,
    images_of: Callable[[str], ImageSource] | None = None,
    watched: Callable[[Iterable[Tensor]], Iterable[Tensor]] = iter,
) -> PackedRun:
    """Packs the network of a finished run and writes it to `file`.

    Args:
        fold_batchnorm: see `pack`.
        images_of: gives a dataset by its name; its training images then measure the statistics of
            batch normalization anew.
        watched: passes on the batches of images as they are asked for, to show progress.

    Raises:
        ValueError: the folder holds no finished run of a quantized network.
    """
    result = _result_of(folder)
    recipe = result["recipe"]
    if recipe["quantizer"] is None:
        raise ValueError(
            f"{folder} holds a float network, of {recipe['name']}; only networks whose weights "
            "were quantized can be packed"
        )
    if digest_of(folder / FINAL_NAME) != result["weights"]["digest"]:
        raise ValueError(
            f"{folder / FINAL_NAME} is not the network that {RESULT_NAME} beside it speaks of: "
            "its digest differs; train again"
        )
    model = _network(recipe["network"], recipe["dataset"])
    model.load_state_dict(load_file(folder / FINAL_NAME))
    about = _about(result)
    if images_of is not None:
        images = _training_images(result, images_of(recipe["dataset"]))
        recalibrate(model, watched(images), Machine())
        about["statistics"] = "recalibrated"
    quantizer = _quantizer(recipe["quantizer"])
    weights = select_weights(model, quantizer, keep_float=recipe["keep_float"])
    pack(model, weights, fold_batchnorm=fold_batchnorm)
    save_packed(model, file, about=about)
    return PackedRun(recipe["method"], file, certify(file), result["summary"]["last"])


def load_packed_run(path: Path) -> tuple[nn.Module, str]:
    """The network that `pack_run` has written, and the name of the dataset that it is for.

    Raises:
        PackedFileError: the file does not say which network it holds.
    """
    file = PackedFile(path)
    about = file.manifest.about
    if about.get("dataset") not in IMAGE_SHAPES or "network" not in about:
        raise PackedFileError(
            f"{path} does not say which network of the lab it holds; "
            "load it with load_packed(file, model) into a model of yours"
        )
    with torch.device("meta"):
        model = _network(about["network"], about["dataset"])
    place(file, model)
    return model.eval(), about["dataset"]


def accuracy_of(model: nn.Module, data: ImageSource, machine: Machine) -> float:
    """Percentage of the test images that a network gets right."""
    return Evaluation(model, data, machine).accuracies()["accuracy"]


def example_images(dataset: str) -> Tensor:
    """An image of that dataset's shape, which an exporter can follow through a network."""
    return torch.zeros(1, *IMAGE_SHAPES[dataset])


def _result_of(folder: Path) -> dict[str, Any]:
    if not (folder / RESULT_NAME).is_file():
        raise ValueError(
            f"{folder} holds no finished run: there is no {RESULT_NAME}; give the folder that "
            "`binaryrelax train --out` has filled"
        )
    return read_json(folder / RESULT_NAME)


def _training_images(result: dict[str, Any], data: ImageSource) -> Iterator[Tensor]:
    """Batches of images that the run was trained on."""
    recipe = result["recipe"]
    if recipe.get("held_out"):
        data = data.holding_out(recipe["held_out"])
    return images_after_training(recipe, data, result["seed"])


def _about(result: dict[str, Any]) -> dict[str, str]:
    """What somebody needs to know who has the file alone: which network, and what images it takes.

    They are (pixel - mean) / deviation, channel by channel, with pixels scaled to [0, 1].
    """
    recipe = result["recipe"]
    about = {key: str(recipe[key]) for key in ("name", "network", "dataset", "quantizer")}
    about |= {"seed": str(result["seed"]), "weights": result["weights"]["digest"]}
    for key, values in zip(("mean", "deviation"), NORMALISATIONS[recipe["dataset"]], strict=True):
        about[key] = " ".join(str(value) for value in values)
    return about


def _network(name: str, dataset: str) -> nn.Module:
    return build_network(name, IMAGE_SHAPES[dataset][0], NUM_CLASSES[dataset])


def _quantizer(text: str) -> Quantizer:
    return parsed_settings({"quantizer": text}, {"quantizer": Quantizer | None})["quantizer"]
