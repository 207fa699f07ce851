"""Watches the levels of weights from one training step to the next, on the network of the demo.

Two experiments of docs/findings.md, about eight minutes on one core:

jumps     how much of a layer the two ternary projections change in a step
flips     how many binary weights a step flips while the learning rate stays the same

    python tools/watch_steps.py        writes results/findings/jumps.json and flips.json
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from binaryrelax import LayerRecord, measure
from binaryrelax.lab.data import ImageSource, load_fashion_mnist
from binaryrelax.lab.engine.environment import describe_environment
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.jobs import one_thread
from binaryrelax.lab.recipes import Recipe, Steps, find_recipe

OUT = Path(__file__).parents[1] / "results" / "findings"
TERNARY_RECIPES = ("demo-ternary", "demo-ternary+quantizer=Ternary()")
JUMP_EPOCHS, FIRST_EPOCHS = 6, 2  # of Phase I; the first ones are not looked at
DECAYS = (1e-4, 0.0)
FLIP_EPOCHS, MILESTONES = 60, (12, 24)  # the paper's 300, 120 and 220, shortened
STEPS_BETWEEN_LOOKS = 8
AT_THE_BORDER = 0.01  # of the scale


def main() -> None:
    """Both experiments, from the same float network."""
    data = load_fashion_mnist()
    with one_thread():
        start = find_recipe(find_recipe("demo-bwn").starts_from)
        trainer = started(start, data)
        for _ in range(start.epochs):
            for _ in trainer.steps():
                pass
        initial = trainer.model.state_dict()
        write("jumps", [jumps(find_recipe(name), data, initial) for name in TERNARY_RECIPES])
        write("flips", [flips(decaying(decay), data, initial) for decay in DECAYS])


def write(name: str, records: list[dict[str, Any]]) -> None:
    """Writes what was seen."""
    OUT.mkdir(parents=True, exist_ok=True)
    content = {"environment": describe_environment(Machine()), "records": records}
    (OUT / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{OUT / name}.json: written")


def started(recipe: Recipe, data: ImageSource, initial: dict[str, Any] | None = None) -> Trainer:
    """A network before its first step, seed 0."""
    trainer = Trainer(recipe, data, seed=0, initial=initial)
    trainer.start()
    return trainer


def jumps(recipe: Recipe, data: ImageSource, initial: dict[str, Any]) -> dict[str, Any]:
    """What the layers of a ternary network do from step to step in Phase I."""
    trainer = started(recipe, data, initial)
    seen = []
    for epoch in range(JUMP_EPOCHS):
        looks = [measure(trainer.optimizer) for _ in trainer.steps()]
        seen += looks if epoch >= FIRST_EPOCHS else []
    layers = [_jumps_of_layer(list(steps)) for steps in zip(*seen, strict=True)]
    return {"recipe": recipe.name, "steps": len(seen), "layers": layers}


def _jumps_of_layer(steps: list[LayerRecord]) -> dict[str, Any]:
    changes = [abs(after.scale / before.scale - 1) for before, after in pairwise(steps)]
    flipped = [record.level_flips for record in steps]
    zeros = [record.zeros for record in steps]
    return {
        "name": steps[0].name,
        "num_weights": steps[0].num_weights,
        "level_flips": {"median": median(flipped), "largest": max(flipped)},
        "scale_change": {"median": median(changes), "largest": max(changes)},
        "zeros": {"least": min(zeros), "most": max(zeros)},
    }


def decaying(weight_decay: float) -> Recipe:
    """BWN with the paper's momentum and steps of the learning rate, in fewer epochs."""
    return replace(
        find_recipe("demo-bwn"),
        name=f"demo-bwn, paper's schedule in {FLIP_EPOCHS} epochs",
        epochs=FLIP_EPOCHS,
        phase_two_epoch=FLIP_EPOCHS * 4 // 5,
        lr_schedule=Steps(milestones=MILESTONES),
        momentum=0.95,
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
        epochs.append({**kept, "flips_a_step": flipped, **_sizes(trainer)})
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


def _sizes(trainer: Trainer) -> dict[str, float]:
    """The mean of |y|, and the share of weights next to zero, where the sign changes."""
    magnitudes = [y.abs() for y in trainer.optimizer.float_weights.values()]
    total = sum(y.numel() for y in magnitudes)
    near = sum(int((y < AT_THE_BORDER * y.mean()).sum()) for y in magnitudes)
    return {
        "mean_magnitude": sum(float(y.sum()) for y in magnitudes) / total,
        "at_the_border": near / total,
    }


if __name__ == "__main__":
    main()
