"""What the statistics of batch normalization are worth after their weights have changed.

Measured on networks that runs have left, and on the demo when Phase I ends: at x, projected on the
spot, and an epoch of Phase II later. Each time with the statistics of training, and with averages
over a hundred batches of training images.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from binaryrelax_lab.data import ImageSource, load_dataset, load_fashion_mnist
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.engine.image_task import task_for
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.network import new_network
from binaryrelax_lab.engine.recalibration import images_after_training, recalibrated
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.files import FINAL_NAME, digest_of
from binaryrelax_lab.packing import accuracy_of
from binaryrelax_lab.recipes import Recipe, find_recipe, plain
from binaryrelax_lab.studies import Say, silence
from binaryrelax_lab.studies.finding import Record
from binaryrelax_lab.studies.quantized_training import (
    float_network_of_the_demo,
    relaxation_of,
    started,
    train_epochs,
)

SEEDS = range(3)
PHASE_TWO_RECIPES = tuple(  # the same networks for two last λ
    f"demo-{method}{change}" for method in ("binary", "ternary") for change in ("+growth=1.08", "")
)


def recalibrated_networks(
    folder: Path, data_folder: Path | None, say: Say = silence
) -> Iterator[Record]:
    """All networks in RECIPE/seedK of a folder, before and after, on the test images."""
    files = sorted(folder.glob(f"*/seed*/{FINAL_NAME}"))
    if not files:
        raise ValueError(f"{folder} holds no network: there is no RECIPE/seedK/{FINAL_NAME} in it")
    environment = describe_environment(Machine())
    where = {key: environment[key] for key in ("torch", "git_commit")}
    for file in files:
        recipe, seed = find_recipe(file.parts[-3]), int(file.parts[-2].removeprefix("seed"))
        data = load_dataset(recipe.dataset, data=data_folder)
        found = before_and_after(recipe, seed, file, data)
        say(
            f"{recipe.name}, seed {seed}: {found['as_trained']:.2f} %, "
            f"recalibrated {found['recalibrated']:.2f} %"
        )
        yield found | {"digest": digest_of(file)} | where


def before_and_after(recipe: Recipe, seed: int, file: Path, data: ImageSource) -> Record:
    """The accuracy of a network with the statistics of training, and with new ones."""
    model, machine = new_network(task_for(recipe, data), seed), Machine()
    model.load_state_dict(load_file(file))
    record = {"recipe": recipe.name, "seed": seed, "as_trained": accuracy_of(model, data, machine)}
    with recalibrated(model, images_after_training(plain(recipe), data, seed), machine):
        return record | {"recalibrated": accuracy_of(model, data, machine)}


def phase_two_of_the_demo(say: Say) -> list[Record]:
    """Every recipe with every seed, from the float network of that seed."""
    data = load_fashion_mnist()
    records = []
    for seed in SEEDS:
        ancestor = float_network_of_the_demo(data, seed=seed)
        for name in PHASE_TWO_RECIPES:
            records.append(phase_two(find_recipe(name), seed, data, deepcopy(ancestor)))
            say(f"{name}, seed {seed}: {len(records)} of {len(SEEDS) * len(PHASE_TWO_RECIPES)}")
    return records


def phase_two(recipe: Recipe, seed: int, data: ImageSource, initial: dict[str, Tensor]) -> Record:
    """Accuracies when Phase I ends, at x and projected, and an epoch later."""
    trainer = started(recipe, data, seed=seed, initial=initial)
    train_epochs(trainer, recipe.phase_two_epoch)
    found = {"at_x": _accuracies(trainer)}
    with relaxation_of(trainer).projected():
        found["projected"] = _accuracies(trainer)
    train_epochs(trainer, 1)
    found["an_epoch_later"] = _accuracies(trainer)
    return {"recipe": recipe.name, "seed": seed, **found}


def _accuracies(trainer: Trainer) -> dict[str, float]:
    return {
        "as_trained": trainer.evaluation.measured()["accuracy"],
        "recalibrated": trainer.closing()["last_recalibrated"],
    }
