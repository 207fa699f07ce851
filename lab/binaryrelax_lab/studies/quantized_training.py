"""Training that a study looks into step by step, without a run folder."""

from __future__ import annotations

from torch import Tensor

from binaryrelax import BinaryRelax
from binaryrelax_lab.data import ImageSource
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import Recipe, find_recipe
from binaryrelax_lab.results import EpochRecord


def started(
    recipe: Recipe, data: ImageSource, *, seed: int = 0, initial: dict[str, Tensor] | None = None
) -> Trainer:
    """A network before its first step."""
    trainer = Trainer(recipe, data, seed=seed, initial=initial)
    trainer.start()
    return trainer


def train_epochs(trainer: Trainer, count: int) -> None:
    """Takes all steps of as many epochs."""
    for _ in range(count):
        for _ in trainer.steps():
            pass


def record_of_epoch(trainer: Trainer) -> EpochRecord:
    """What is recorded of the epoch just ended."""
    record = trainer.epoch_record()
    assert isinstance(record, EpochRecord), f"{trainer.recipe.name} is not trained on images"
    return record


def float_network_of_the_demo(data: ImageSource, *, seed: int = 0) -> dict[str, Tensor]:
    """What the quantized networks of the demo start from."""
    trainer = started(find_recipe("demo-float"), data, seed=seed)
    train_epochs(trainer, trainer.recipe.epochs)
    return trainer.model.state_dict()


def relaxation_of(trainer: Trainer) -> BinaryRelax:
    """The optimizer of a network that is being quantized."""
    assert isinstance(trainer.optimizer, BinaryRelax), f"{trainer.recipe.name} is a float recipe"
    return trainer.optimizer
