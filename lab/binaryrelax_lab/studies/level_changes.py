"""How many weights change their level from one training step to the next.

`flips` counts binary weights that change sign while the learning rate stays, and tells the accuracy
with batch statistics as they are and measured anew. `jumps` tells how much of a layer each of the
two ternary projections changes in a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

from safetensors.torch import load_file
from torch import Tensor

from binaryrelax import LayerRecord, measure
from binaryrelax_lab.data import ImageSource, load_dataset, load_fashion_mnist
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import Recipe, RecipeName, cifar10_resnet20, demo_bwn, find_recipe
from binaryrelax_lab.studies import Say, silence
from binaryrelax_lab.studies.finding import Record
from binaryrelax_lab.studies.quantized_training import (
    float_network_of_the_demo,
    record_of_epoch,
    relaxation_of,
    started,
)

DEMO_RECIPES = ("demo-ternary", "demo-ternary+quantizer=Ternary()")
DEMO_EPOCHS = range(2, 6)  # of Phase I
CIFAR_RECIPES = ("cifar10-resnet20-ternary-plus", "cifar10-resnet20-ternary-exact-plus")
CIFAR_EPOCHS = range(1)
DECAYS = (1e-4, 0.0)
FLIP_EPOCHS = 100  # of the paper's 300, all else in proportion
STEPS_BETWEEN_LOOKS = 8
AT_THE_BORDER = 0.01  # of the scale


def flips_of_the_demo(say: Say) -> list[Record]:
    """With the paper's weight decay and without any, from the same float network."""
    data = load_fashion_mnist()
    initial = float_network_of_the_demo(data)
    return [flips(decaying(decay), data, initial, say) for decay in DECAYS]


def jumps_of_the_demo(say: Say) -> list[Record]:
    """Both projections, from the same float network."""
    data = load_fashion_mnist()
    initial = float_network_of_the_demo(data)
    return [jumps(find_recipe(name), data, initial, DEMO_EPOCHS, say) for name in DEMO_RECIPES]


def jumps_of_resnet20(folder: Path | None, float_network: Path, say: Say) -> list[Record]:
    """Both projections in the first epoch on CIFAR-10, from the same float network."""
    data, initial = load_dataset("cifar10", data=folder), load_file(float_network)
    return [jumps(find_recipe(name), data, initial, CIFAR_EPOCHS, say) for name in CIFAR_RECIPES]


def jumps(
    recipe: Recipe,
    data: ImageSource,
    initial: dict[str, Tensor],
    epochs: range,
    say: Say = silence,
) -> Record:
    """What the layers of a ternary network do from step to step in these epochs."""
    trainer = started(recipe, data, initial=initial)
    optimizer = relaxation_of(trainer)
    measure(optimizer)  # flips are counted from here
    seen = []
    for epoch in range(epochs.stop):
        looks = [measure(optimizer) for _ in trainer.steps()]
        seen += looks if epoch in epochs else []
        say(f"{recipe.name}: epoch {epoch + 1} of {epochs.stop}")
    layers = [_jumps_of_layer(list(steps)) for steps in zip(*seen, strict=True)]
    return {"recipe": recipe.name, "steps": len(seen), "layers": layers}


def _jumps_of_layer(steps: list[LayerRecord]) -> Record:
    flipped = [_flips_of(record) for record in steps]
    zeros = [record.zeros for record in steps]
    return {
        "name": steps[0].name,
        "num_weights": steps[0].num_weights,
        "level_flips": {"median": median(flipped), "largest": max(flipped)},
        "zeros": {"least": min(zeros), "most": max(zeros)},
    }


def decaying(weight_decay: float) -> Recipe:
    """BWN with the paper's momentum and steps of the learning rate, in fewer epochs."""
    paper = cifar10_resnet20("bwn").with_epochs(FLIP_EPOCHS)
    return replace(
        demo_bwn(),
        name=RecipeName(f"demo-bwn, paper's schedule in {FLIP_EPOCHS} epochs"),
        epochs=paper.epochs,
        phase_two_epoch=paper.phase_two_epoch,
        lr_schedule=paper.lr_schedule,
        momentum=paper.momentum,
        weight_decay=weight_decay,
    )


def flips(
    recipe: Recipe, data: ImageSource, initial: dict[str, Tensor], say: Say = silence
) -> Record:
    """How many weights a step flips, epoch by epoch."""
    trainer = started(recipe, data, initial=initial)
    epochs: list[Record] = []
    for _ in range(recipe.epochs):
        epochs.append(_flips_of_epoch(trainer))
        say(
            f"weight decay {recipe.weight_decay:g}, epoch {len(epochs)} of {recipe.epochs}: "
            f"{100 * epochs[-1]['flips_a_step']:.3f} % flip in a step"
        )
    return {"recipe": recipe.name, "weight_decay": recipe.weight_decay, "epochs": epochs}


def _flips_of_epoch(trainer: Trainer) -> Record:
    flipped = fmean(_flips_of_single_steps(trainer))
    record = record_of_epoch(trainer)
    return {
        "epoch": record.epoch,
        "lr": record.lr,
        "train_loss": record.train_loss,
        "accuracy": record.accuracy,
        "recalibrated": trainer.closing()["last_recalibrated"],
        "flips_a_step": flipped,
        "at_the_border": _share_at_the_border(trainer),
    }


def _flips_of_single_steps(trainer: Trainer) -> Iterator[float]:
    """The share of all weights that changed sign, for one step in every few."""
    optimizer = relaxation_of(trainer)
    for number, _ in enumerate(trainer.steps()):
        if number % STEPS_BETWEEN_LOOKS == 0:
            measure(optimizer)
        if number % STEPS_BETWEEN_LOOKS == 1:
            records = measure(optimizer)
            total = sum(record.num_weights for record in records)
            yield sum(_flips_of(record) * record.num_weights for record in records) / total


def _flips_of(record: LayerRecord) -> float:
    assert record.level_flips is not None, "measure() has been called before"
    return record.level_flips


def _share_at_the_border(trainer: Trainer) -> float:
    """The share of weights with a |y| far below the scale: next to zero, where the sign changes."""
    magnitudes = [y.abs() for y in relaxation_of(trainer).float_weights.values()]
    near = sum(int((y < AT_THE_BORDER * y.mean()).sum()) for y in magnitudes)
    return near / sum(y.numel() for y in magnitudes)
