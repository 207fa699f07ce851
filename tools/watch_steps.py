"""Watches the levels of weights from one training step to the next, for docs/findings.md.

    python tools/watch_steps.py flips
        how many binary weights a step flips while the learning rate stays, and the accuracy with
        batch statistics as they are and measured anew; the demo's network
    python tools/watch_steps.py jumps
        how much of a layer the two ternary projections change in a step; the demo's network
    python tools/watch_steps.py jumps --data DIR --initial FILE
        the same for the first epoch of ResNet-20 on CIFAR-10, which starts from the float network
        in FILE, a final.safetensors

They write results/findings/flips.json, jumps-demo.json and jumps-resnet20.json, and take two to
twenty minutes each on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from safetensors.torch import load_file

from binaryrelax import LayerRecord, measure
from binaryrelax.lab.data import ImageSource, load_dataset, load_fashion_mnist
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.jobs import one_thread
from binaryrelax.lab.recipes import Recipe, find_recipe
from finding import write_finding

DEMO_RECIPES = ("demo-ternary", "demo-ternary+quantizer=Ternary()")
DEMO_EPOCHS = range(2, 6)  # of Phase I
CIFAR_RECIPES = ("cifar10-resnet20-ternary-plus", "cifar10-resnet20-ternary-exact-plus")
CIFAR_EPOCHS = range(1)
DECAYS = (1e-4, 0.0)
FLIP_EPOCHS = 100  # of the paper's 300, all else in proportion
STEPS_BETWEEN_LOOKS = 8
AT_THE_BORDER = 0.01  # of the scale


def main() -> None:
    """One of the experiments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="experiment", required=True)
    commands.add_parser("flips")
    of_levels = commands.add_parser("jumps")
    of_levels.add_argument("--data", type=Path, metavar="DIR")
    of_levels.add_argument("--initial", type=Path, metavar="FILE")
    options = parser.parse_args()
    with one_thread():
        if options.experiment == "flips":
            write_finding("flips", flips_of_the_demo())
        elif options.data or options.initial:
            if not (options.data and options.initial):
                parser.error("jumps of ResNet-20 need both --data and --initial")
            write_finding(
                "jumps-resnet20", jumps_of_resnet20(options.data, load_file(options.initial))
            )
        else:
            write_finding("jumps-demo", jumps_of_the_demo())


def flips_of_the_demo() -> list[dict[str, Any]]:
    """With the paper's weight decay and without any, from the same float network."""
    data = load_fashion_mnist()
    initial = float_network_of_the_demo(data)
    return [flips(decaying(decay), data, initial) for decay in DECAYS]


def jumps_of_the_demo() -> list[dict[str, Any]]:
    """Both projections, from the same float network."""
    data = load_fashion_mnist()
    initial = float_network_of_the_demo(data)
    return [jumps(find_recipe(name), data, initial, DEMO_EPOCHS) for name in DEMO_RECIPES]


def jumps_of_resnet20(folder: Path, initial: dict[str, Any]) -> list[dict[str, Any]]:
    """Both projections, from the same float network."""
    data = load_dataset("cifar10", data=folder)
    return [jumps(find_recipe(name), data, initial, CIFAR_EPOCHS) for name in CIFAR_RECIPES]


def float_network_of_the_demo(data: ImageSource) -> dict[str, Any]:
    """What the quantized networks of the demo start from, seed 0."""
    recipe = find_recipe("demo-float")
    trainer = started(recipe, data)
    for _ in range(recipe.epochs):
        for _ in trainer.steps():
            pass
    return trainer.model.state_dict()


def started(recipe: Recipe, data: ImageSource, initial: dict[str, Any] | None = None) -> Trainer:
    """A network before its first step, seed 0."""
    trainer = Trainer(recipe, data, seed=0, initial=initial)
    trainer.start()
    return trainer


def jumps(
    recipe: Recipe, data: ImageSource, initial: dict[str, Any], epochs: range
) -> dict[str, Any]:
    """What the layers of a ternary network do from step to step in these epochs."""
    trainer = started(recipe, data, initial)
    measure(trainer.optimizer)  # flips are counted from here
    seen = []
    for epoch in range(epochs.stop):
        looks = [measure(trainer.optimizer) for _ in trainer.steps()]
        seen += looks if epoch in epochs else []
    layers = [_jumps_of_layer(list(steps)) for steps in zip(*seen, strict=True)]
    return {"recipe": recipe.name, "steps": len(seen), "layers": layers}


def _jumps_of_layer(steps: list[LayerRecord]) -> dict[str, Any]:
    flipped = [record.level_flips for record in steps]
    zeros = [record.zeros for record in steps]
    return {
        "name": steps[0].name,
        "num_weights": steps[0].num_weights,
        "level_flips": {"median": median(flipped), "largest": max(flipped)},
        "zeros": {"least": min(zeros), "most": max(zeros)},
    }


def decaying(weight_decay: float) -> Recipe:
    """BWN with the paper's momentum and steps of the learning rate, in fewer epochs."""
    paper = find_recipe("cifar10-resnet20-bwn").with_epochs(FLIP_EPOCHS)
    return replace(
        find_recipe("demo-bwn"),
        name=f"demo-bwn, paper's schedule in {FLIP_EPOCHS} epochs",
        epochs=paper.epochs,
        phase_two_epoch=paper.phase_two_epoch,
        lr_schedule=paper.lr_schedule,
        momentum=paper.momentum,
        weight_decay=weight_decay,
    )


def flips(recipe: Recipe, data: ImageSource, initial: dict[str, Any]) -> dict[str, Any]:
    """How many weights a step flips, epoch by epoch."""
    trainer = started(recipe, data, initial)
    epochs = []
    for _ in range(recipe.epochs):
        flipped = fmean(_flips_of_single_steps(trainer))
        record = trainer.epoch_record()
        kept = {key: record[key] for key in ("epoch", "lr", "train_loss", "accuracy")}
        near = _share_at_the_border(trainer)
        anew = trainer.accuracy_recalibrated()
        epochs.append(
            {**kept, "recalibrated": anew, "flips_a_step": flipped, "at_the_border": near}
        )
    return {"recipe": recipe.name, "weight_decay": recipe.weight_decay, "epochs": epochs}


def _flips_of_single_steps(trainer: Trainer) -> Iterator[float]:
    """The share of all weights that changed sign, for one step in every few."""
    for number, _ in enumerate(trainer.steps()):
        if number % STEPS_BETWEEN_LOOKS == 0:
            measure(trainer.optimizer)
        if number % STEPS_BETWEEN_LOOKS == 1:
            records = measure(trainer.optimizer)
            total = sum(record.num_weights for record in records)
            yield sum(record.level_flips * record.num_weights for record in records) / total


def _share_at_the_border(trainer: Trainer) -> float:
    """The share of weights with a |y| far below the scale: next to zero, where the sign changes."""
    magnitudes = [y.abs() for y in trainer.optimizer.float_weights.values()]
    near = sum(int((y < AT_THE_BORDER * y.mean()).sum()) for y in magnitudes)
    return near / sum(y.numel() for y in magnitudes)


if __name__ == "__main__":
    main()
