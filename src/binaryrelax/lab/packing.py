"""Finished runs as packed files, and packed files as networks again."""

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
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.lab.data import IMAGE_SHAPES, NUM_CLASSES, ImageSource
from binaryrelax.lab.engine import FINAL_NAME, RESULT_NAME, Machine, read_json
from binaryrelax.lab.engine.evaluation import Evaluation
from binaryrelax.lab.engine.files import digest_of
from binaryrelax.lab.models import build_network
from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.recipes.settings import parsed_settings

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


def pack_run(folder: Path, file: Path, *, fold_batchnorm: bool, dense: bool = True) -> PackedRun:
    """Packs the network of a finished run and writes it to `file`.

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
    quantizer = _quantizer(recipe["quantizer"])
    weights = select_weights(model, quantizer, keep_float=recipe["keep_float"])
    pack(model, weights, fold_batchnorm=fold_batchnorm)
    about = {key: str(recipe[key]) for key in ("name", "network", "dataset", "quantizer")}
    about |= {"seed": str(result["seed"]), "weights": result["weights"]["digest"]}
    save_packed(model, file, dense=dense, about=about)
    return PackedRun(recipe["method"], file, certify(file), result["summary"]["last"])


def load_packed_run(file: Path) -> tuple[nn.Module, tuple[int, int, int]]:
    """The network that `pack_run` has written, and the shape of the images that it takes.

    Raises:
        PackedFileError: the file does not say which network it holds.
    """
    about = certify(file).about
    if about.get("dataset") not in IMAGE_SHAPES or "network" not in about:
        raise PackedFileError(
            f"{file} does not say which network of the lab it holds; "
            "load it with load_packed(file, model) into a model of yours"
        )
    with torch.device("meta"):
        model = _network(about["network"], about["dataset"])
    return load_packed(file, model), IMAGE_SHAPES[about["dataset"]]


def accuracy_of(model: nn.Module, data: ImageSource, machine: Machine) -> float:
    """Percentage of the test images that a network gets right."""
    accuracy = Evaluation(model, data, machine).accuracies()["accuracy"]
    model.eval()
    return accuracy


def example_images(shape: tuple[int, int, int]) -> Tensor:
    """An image that an exporter can follow through a network."""
    return torch.zeros(1, *shape)


def _result_of(folder: Path) -> dict[str, Any]:
    if not (folder / RESULT_NAME).is_file():
        raise ValueError(
            f"{folder} holds no finished run: there is no {RESULT_NAME}; give the folder that "
            "`binaryrelax train --out` has filled"
        )
    return read_json(folder / RESULT_NAME)


def _network(name: str, dataset: str) -> nn.Module:
    return build_network(name, IMAGE_SHAPES[dataset][0], NUM_CLASSES[dataset])


def _quantizer(text: str) -> Quantizer:
    return parsed_settings({"quantizer": text}, {"quantizer": Quantizer | None})["quantizer"]
