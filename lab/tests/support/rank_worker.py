"""What each rank does in tests: ``torchrun -m lab.tests.support.rank_worker FOLDER``.

Each writes what it holds at the end to FOLDER, under its own name.
"""

import sys
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from lab.tests.support.tiny import tiny_data, tiny_recipe
from torch import nn

from binaryrelax_lab.engine import Machine, this_machine
from binaryrelax_lab.engine.trainer import Trainer

NUM_IMAGES = 33  # batches of 16, 16 and 1: the last has no image for the second rank


def started(machine: Machine) -> Trainer:
    """A network before its first step."""
    recipe = tiny_recipe("ternary", epochs=2)
    trainer = Trainer(recipe, tiny_data(NUM_IMAGES), seed=0, machine=machine)
    trainer.start()
    return trainer


def resumed(machine: Machine) -> Trainer:
    """A network that goes on from what another one had saved inside its first epoch."""
    before, after = started(machine), started(machine)
    list(islice(before.steps(), 2))
    after.load_state(deepcopy(before.state()))
    return after


def result(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Every tensor after the last epoch: parameters, y, momentum, statistics; and the records."""
    records = []
    while trainer.epoch < trainer.recipe.epochs:
        list(trainer.steps())
        records.append(trainer.epoch_record())
    optimizer, names = trainer.optimizer, trainer.weights.names
    momenta = optimizer.base.state_dict()["state"]
    return {
        **trainer.model.state_dict(),
        **{f"y {names[x]}": y for x, y in optimizer.float_weights.items()},
        **{f"momentum {index}": values["momentum_buffer"] for index, values in momenta.items()},
        "records": torch.tensor([[r.train_loss, r.accuracy] for r in records], dtype=torch.double),
    }


def gradients(machine: Machine) -> list[list[torch.Tensor]]:
    """The gradients of each step of an epoch of a float network without batch normalization.

    With it they would depend on which images share a process.
    """
    recipe = replace(tiny_recipe("float", epochs=1), lr=0.01)
    trainer = Trainer(recipe, tiny_data(NUM_IMAGES), seed=0, machine=machine)
    for block in (trainer.model.block1, trainer.model.block2, trainer.model.block3):
        block.norm = nn.Identity()
    trainer.model.block4.norm = nn.Identity()
    trainer.start()
    parameters = list(trainer.model.parameters())
    return [[p.grad.clone() for p in parameters] for _ in trainer.steps()]


def main(folder: Path) -> None:
    """All of it, on this rank."""
    torch.set_num_threads(1)
    with this_machine() as machine:
        held = {
            "whole": result(started(machine)),
            "resumed": result(resumed(machine)),
            "gradients": gradients(machine),
        }
        torch.save(held, folder / f"{machine.ranks.share.rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
