"""Finished runs as packed files, and packed files as networks again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
from binaryrelax.packed.file import PackedFile
from binaryrelax.packed.loading import place
from binaryrelax_lab.data import (
    IMAGE_SHAPES,
    NORMALISATIONS,
    NUM_CLASSES,
    EpochPlan,
    ImageSource,
)
from binaryrelax_lab.engine import Machine, RunFolder
from binaryrelax_lab.engine.evaluation import Evaluation
from binaryrelax_lab.engine.network import with_tied
from binaryrelax_lab.engine.recalibration import images_after_training, recalibrate
from binaryrelax_lab.language import build_llama, weights_of_layers
from binaryrelax_lab.models import build_network
from binaryrelax_lab.recipes.settings import parsed_settings
from binaryrelax_lab.results import LanguageResult, RunResult, TrainingResult


@dataclass(frozen=True)
class PackedRun:
    """A finished run and the file that it was packed into.

    Args:
        method: "bwn", "binary", ...
        file: the packed network.
        certificate: what the file holds.
        trained: accuracy of the network as it was trained, after its last epoch.
    """

    method: str
    file: Path
    certificate: Certificate
    trained: float


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
    run_folder = RunFolder(folder)
    result = run_folder.finished()
    recipe = result.recipe
    if recipe.quantizer is None:
        raise ValueError(
            f"{folder} holds a float network, of {recipe.name}; only networks whose weights "
            "were quantized can be packed"
        )
    model, quantizer = _network_of(result), _quantizer(recipe.quantizer)
    model.load_state_dict(with_tied(load_file(run_folder.network), model))
    about = _about(result)
    if images_of is not None:
        if not isinstance(result, RunResult):
            raise ValueError(f"{folder} holds a language model, which has no batch statistics")
        images = _training_images(result, images_of(recipe.dataset))
        recalibrate(model, watched(images), Machine())
        about["statistics"] = "recalibrated"
    select = select_weights if isinstance(result, RunResult) else weights_of_layers
    weights = select(model, quantizer, keep_float=recipe.settings["keep_float"])
    pack(model, weights, fold_batchnorm=fold_batchnorm)
    save_packed(model, file, about=about)
    return PackedRun(recipe.method, file, certify(file), result.last)


def load_packed_run(path: Path) -> tuple[nn.Module, str]:
    """The network that `pack_run` has written, and the name of the dataset that it is for.

    Raises:
        PackedFileError: the file does not say which network it holds.
    """
    file = PackedFile(path)
    about = file.manifest.about
    if not is_of_the_lab(about):
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
    return Evaluation(model, data, machine).measured()["accuracy"]


def example_images(dataset: str) -> Tensor:
    """An image of that dataset's shape, which an exporter can follow through a network."""
    return torch.zeros(1, *IMAGE_SHAPES[dataset])


def images_as_trained(data: ImageSource, count: int) -> Tensor:
    """So many training images, chosen at random, as the network sees them; not augmented."""
    plan = EpochPlan(seed=0, epoch=0, batch_size=count)
    images, _ = data.look_up(*next(data.train_batches(plan=plan)))
    return images.contiguous()


def is_of_the_lab(about: Mapping[str, str]) -> bool:
    """Whether what a packed file says of itself is enough to build its network."""
    return about.get("dataset") in IMAGE_SHAPES and "network" in about


def _training_images(result: TrainingResult, data: ImageSource) -> Iterator[Tensor]:
    """Batches of images that the run was trained on."""
    settings = result.recipe.settings
    if settings.get("held_out"):
        data = data.holding_out(settings["held_out"])
    return images_after_training(settings, data, result.seed)


def _about(result: TrainingResult) -> dict[str, str]:
    """What somebody needs to know who has the file alone: which network, and what it takes.

    Images are (pixel - mean) / deviation, channel by channel, with pixels scaled to [0, 1].
    """
    recipe = result.recipe
    about = {key: str(getattr(recipe, key)) for key in ("name", "network", "quantizer")}
    about |= {"seed": str(result.seed), "weights": str(result.weights and result.weights.digest)}
    if isinstance(result, LanguageResult):
        return about | {key: str(recipe.settings[key]) for key in ("vocabulary", "context")}
    about["dataset"] = recipe.dataset
    for key, values in zip(("mean", "deviation"), NORMALISATIONS[recipe.dataset], strict=True):
        about[key] = " ".join(str(value) for value in values)
    return about


def _network_of(result: TrainingResult) -> nn.Module:
    """The network of a run, with any weights."""
    recipe = result.recipe
    if isinstance(result, LanguageResult):
        llama: nn.Module = build_llama(
            recipe.network, recipe.settings["vocabulary"], recipe.settings["context"]
        )
        return llama
    return _network(recipe.network, recipe.dataset)


def _network(name: str, dataset: str) -> nn.Module:
    return build_network(name, IMAGE_SHAPES[dataset][0], NUM_CLASSES[dataset])


def _quantizer(text: str) -> Quantizer:
    return parsed_settings({"quantizer": text}, {"quantizer": Quantizer | None})["quantizer"]
