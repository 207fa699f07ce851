"""What the statistics of batch normalization are worth after their weights have changed.

    python tools/recalibrate.py networks FOLDER --data DIR
        networks in FOLDER/RECIPE/seedK/final.safetensors, on the test images: as they are, and with
        statistics averaged over a hundred batches of training images
    python tools/recalibrate.py phase-two
        the same for the demo when Phase I ends, for two last λ: at x, projected on the spot, and an
        epoch of Phase II later; about fifteen minutes on one core

They write results/findings/recalibration.json and phase-two.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from binaryrelax.lab.data import EpochPlan, ImageSource, load_dataset, load_fashion_mnist
from binaryrelax.lab.engine.files import FINAL_NAME
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.engine.network import new_network
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.jobs import one_thread
from binaryrelax.lab.packing import accuracy_of
from binaryrelax.lab.recipes import Recipe, find_recipe
from finding import write_finding

NUM_BATCHES = 100
SEEDS = range(3)
PHASE_TWO_RECIPES = tuple(
    f"demo-{method}{change}" for method in ("binary", "ternary") for change in ("+growth=1.08", "")
)


def main() -> None:
    """One of the experiments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="experiment", required=True)
    commands.add_parser("phase-two")
    of_networks = commands.add_parser("networks")
    of_networks.add_argument("folder", type=Path)
    of_networks.add_argument("--data", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    if options.experiment == "phase-two":
        with one_thread():
            records = phase_two_of_the_demo()
        write_finding("phase-two", records, batches=NUM_BATCHES)
    else:
        records = list(recalibrated_networks(options.folder, options.data))
        write_finding("recalibration", records, batches=NUM_BATCHES)


def recalibrated_networks(folder: Path, data_folder: Path) -> Iterator[dict[str, Any]]:
    """All networks in a folder, before and after."""
    for file in sorted(folder.glob(f"*/seed*/{FINAL_NAME}")):
        recipe, seed = find_recipe(file.parts[-3]), int(file.parts[-2].removeprefix("seed"))
        data = load_dataset(recipe.dataset, data=data_folder)
        record = recalibrated(recipe, seed, file, data)
        print(record)
        yield record


def recalibrated(recipe: Recipe, seed: int, file: Path, data: ImageSource) -> dict[str, Any]:
    """The accuracy of a network before and after."""
    model = new_network(recipe, data, seed)
    model.load_state_dict(load_file(file))
    return {"recipe": recipe.name, "seed": seed, **before_and_after(model, recipe, seed, data)}


def before_and_after(
    model: nn.Module, recipe: Recipe, seed: int, data: ImageSource
) -> dict[str, float]:
    """The accuracy with the statistics of training, and with averages over training images."""
    return {
        "as_trained": accuracy_of(model, data, Machine()),
        "recalibrated": accuracy_anew(model, recipe, seed, data),
    }


def accuracy_anew(model: nn.Module, recipe: Recipe, seed: int, data: ImageSource) -> float:
    """The accuracy of a copy with statistics averaged over batches of training images."""
    model = deepcopy(model)
    update_bn(training_images(recipe, seed, data), model)
    return accuracy_of(model, data, Machine())


def phase_two_of_the_demo() -> list[dict[str, Any]]:
    """Every recipe with every seed, from the float network of that seed."""
    data = load_fashion_mnist()
    records = []
    for seed in SEEDS:
        ancestor = Trainer(find_recipe("demo-float"), data, seed=seed)
        ancestor.start()
        _train(ancestor, ancestor.recipe.epochs)
        for name in PHASE_TWO_RECIPES:
            initial = deepcopy(ancestor.model.state_dict())
            records.append(phase_two(find_recipe(name), seed, data, initial))
            print(records[-1])
    return records


def phase_two(
    recipe: Recipe, seed: int, data: ImageSource, initial: dict[str, Tensor]
) -> dict[str, Any]:
    """Accuracies when Phase I ends, at x and projected, and an epoch later."""
    trainer = Trainer(recipe, data, seed=seed, initial=initial)
    trainer.start()
    _train(trainer, recipe.phase_two_epoch)
    found = {"at_x": before_and_after(trainer.model, recipe, seed, data)}
    with trainer.optimizer.projected():
        found["projected"] = before_and_after(trainer.model, recipe, seed, data)
    _train(trainer, 1)
    found["an_epoch_later"] = before_and_after(trainer.model, recipe, seed, data)
    return {"recipe": recipe.name, "seed": seed, **found}


def _train(trainer: Trainer, epochs: int) -> None:
    for _ in range(epochs):
        for _ in trainer.steps():
            pass


def training_images(recipe: Recipe, seed: int, data: ImageSource) -> Iterator[Tensor]:
    """Batches as in training, in the order of the epoch after the last."""
    plan = EpochPlan(
        seed=seed,
        epoch=recipe.epochs,
        batch_size=recipe.batch_size,
        flip=recipe.flip,
        crop_padding=recipe.crop_padding,
    )
    for batch in islice(data.train_batches(plan=plan), NUM_BATCHES):
        yield data.look_up(*batch)[0]


if __name__ == "__main__":
    main()
