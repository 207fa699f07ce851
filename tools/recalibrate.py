"""What the statistics of batch normalization are worth after their weights have changed.

    python tools/recalibrate.py networks FOLDER --data DIR
        networks in FOLDER/RECIPE/seedK/final.safetensors, on the test images: as they are, and with
        statistics averaged over a hundred batches of training images
    python tools/recalibrate.py phase-two
        the same for the demo when Phase I ends, for two last λ: at x, projected on the spot, and an
        epoch of Phase II later; about fifteen minutes on one core

They write results/findings/recalibration.json and phase-two.json. Networks are added to those of
earlier calls, one by one, each with the commit and the torch that measured it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from binaryrelax.lab.data import ImageSource, load_dataset, load_fashion_mnist
from binaryrelax.lab.engine.environment import describe_environment
from binaryrelax.lab.engine.files import FINAL_NAME, digest_of
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.engine.network import new_network
from binaryrelax.lab.engine.recalibration import (
    NUM_BATCHES,
    images_after_training,
    recalibrated,
)
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.jobs import one_thread
from binaryrelax.lab.packing import accuracy_of
from binaryrelax.lab.recipes import Recipe, find_recipe, plain
from finding import read_records, write_finding

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
        add_networks(recalibrated_networks(options.folder, options.data))


def add_networks(records: Iterable[dict[str, Any]]) -> None:
    """Puts each record beside those of other networks, as soon as it is there."""
    of_network = {(old["recipe"], old["seed"]): old for old in read_records("recalibration")}
    for record in records:
        print(record)
        of_network[record["recipe"], record["seed"]] = record
        in_order = [of_network[key] for key in sorted(of_network)]
        write_finding("recalibration", in_order, batches=NUM_BATCHES)


def recalibrated_networks(folder: Path, data_folder: Path) -> Iterator[dict[str, Any]]:
    """All networks in a folder, before and after."""
    environment = describe_environment(Machine())
    where = {key: environment[key] for key in ("torch", "git_commit")}
    for file in sorted(folder.glob(f"*/seed*/{FINAL_NAME}")):
        recipe, seed = find_recipe(file.parts[-3]), int(file.parts[-2].removeprefix("seed"))
        data = load_dataset(recipe.dataset, data=data_folder)
        yield before_and_after(recipe, seed, file, data) | {"digest": digest_of(file)} | where


def before_and_after(recipe: Recipe, seed: int, file: Path, data: ImageSource) -> dict[str, Any]:
    """The accuracy of a network with the statistics of training, and with new ones."""
    model, machine = new_network(recipe, data, seed), Machine()
    model.load_state_dict(load_file(file))
    record = {"recipe": recipe.name, "seed": seed, "as_trained": accuracy_of(model, data, machine)}
    with recalibrated(model, images_after_training(plain(recipe), data, seed), machine):
        return record | {"recalibrated": accuracy_of(model, data, machine)}


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
    found = {"at_x": _accuracies(trainer)}
    with trainer.optimizer.projected():
        found["projected"] = _accuracies(trainer)
    _train(trainer, 1)
    found["an_epoch_later"] = _accuracies(trainer)
    return {"recipe": recipe.name, "seed": seed, **found}


def _accuracies(trainer: Trainer) -> dict[str, float]:
    return {
        "as_trained": trainer.evaluation.accuracies()["accuracy"],
        "recalibrated": trainer.accuracy_recalibrated(),
    }


def _train(trainer: Trainer, epochs: int) -> None:
    for _ in range(epochs):
        for _ in trainer.steps():
            pass


if __name__ == "__main__":
    main()
