"""The training steps that are measured: those of the engine, on random images of CIFAR's size.

Or on other data. On a CPU they are timed by its own clock.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from binaryrelax_lab.data import ImageSet
from binaryrelax_lab.engine import Machine, Material
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import Recipe, RecipeName, cifar10_resnet20
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.timing import device_time, timed

WARM_UP = 6  # steps; after the first few of them the rest are replayed as a CUDA graph
NUM_IMAGES = 10_000


def recipe_of(network: str, variant: str) -> Recipe:
    """The paper's recipe of a network; all share the settings that cost time."""
    return replace(
        cifar10_resnet20(variant), name=RecipeName(f"{network}-{variant}"), network=network
    )


def random_images() -> ImageSet:
    """Images that are the same in every run."""
    generator = torch.Generator().manual_seed(0)

    def images(count: int) -> tuple[Tensor, Tensor]:
        pixels = torch.randint(0, 256, (count, 32, 32, 3), generator=generator, dtype=torch.uint8)
        return pixels, torch.randint(0, 10, (count,), generator=generator)

    train, test = images(NUM_IMAGES), images(128)
    return ImageSet(
        train_images=train[0],
        train_labels=train[1],
        test_images=test[0],
        test_labels=test[1],
        num_classes=10,
        mean=(0.5, 0.5, 0.5),
        deviation=(0.25, 0.25, 0.25),
    )


class TrainingSteps:
    """Endless training steps of a network, on a GPU on a stream of its own.

    Args:
        prepare: changes the network before its first step.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: ImageSet | Material,
        machine: Machine,
        say: Say,
        prepare: Callable[[nn.Module], None] = lambda model: None,
    ) -> None:
        self.stream = torch.cuda.Stream() if machine.is_gpu else None
        with torch.cuda.stream(self.stream):
            self.trainer = Trainer(recipe, data, seed=0, machine=machine, note=say)
            prepare(self.trainer.model)
            self.trainer.start()
        self._steps = self.trainer.steps()

    def take(self, count: int) -> None:
        """Launches that many whole steps; short batches at an epoch's end are left out."""
        with torch.cuda.stream(self.stream):
            for _ in range(count):
                if self.trainer.steps_in_epoch == self.trainer.steps_per_epoch - 1:
                    self.trainer.num_steps += 1
                    self._steps = self.trainer.steps()
                next(self._steps)

    def time(self, count: int) -> float:
        """Milliseconds per step, by the device's clock."""
        if self.stream is None:
            return 1000 * timed(partial(self.take, count))[1] / count
        return device_time(partial(self.take, count), self.stream) / count


def time_side_by_side(takers: Sequence[TrainingSteps], count: int) -> float:
    """Milliseconds per step and network while all of them take steps at once."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        for taker in takers:
            taker.take(1)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / count / len(takers)
