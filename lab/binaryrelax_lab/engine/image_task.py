"""Training on images: cross entropy of classes, SGD, and the accuracy on the test set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from statistics import fmean
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from binaryrelax.packed.manifest import digest_of_tensors
from binaryrelax_lab.data import EpochPlan, ImageSet, ImageSource, Share
from binaryrelax_lab.engine.evaluation import Evaluation
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.recalibration import images_after_training, recalibrated
from binaryrelax_lab.engine.task import Evaluator, Material, Measured, Note, Task
from binaryrelax_lab.models import build_network
from binaryrelax_lab.recipes import ImageRecipe, Recipe, plain
from binaryrelax_lab.results import EpochRecord, RunResult, Summary


@dataclass(frozen=True)
class ImageTask(Task):
    """See `Task`.

    Args:
        data: without the images that the recipe holds out; `task_for` sees to that.
    """

    recipe: ImageRecipe
    data: ImageSource

    result_type = RunResult

    @property
    def num_examples(self) -> int:
        return self.data.num_train

    def to(self, device: torch.device) -> Self:
        return replace(self, data=self.data.to(device))

    def build(self) -> nn.Module:
        return build_network(self.recipe.network, self.data.num_channels, self.data.num_classes)

    def place(self, model: nn.Module, machine: Machine) -> None:
        """With channels last, and our own kernels; layers and parameters keep their names."""
        model.to(machine.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if machine.is_gpu and machine.precision == "bf16" and find_spec("triton"):
            from binaryrelax_lab.engine.narrow_convolutions import quicken

            quicken(model)

    def base_optimizer(self, model: nn.Module, machine: Machine) -> Optimizer:
        return torch.optim.SGD(
            model.parameters(),
            lr=self.recipe.lr,
            momentum=self.recipe.momentum,
            weight_decay=self.recipe.weight_decay,
            fused=machine.is_gpu or None,
        )

    def batches(
        self, *, seed: int, epoch: int, share: Share, skip: int = 0
    ) -> Iterator[tuple[Tensor, ...]]:
        plan = EpochPlan(
            seed=seed,
            epoch=epoch,
            batch_size=self.recipe.batch_size,
            flip=self.recipe.flip,
            crop_padding=self.recipe.crop_padding,
            share=share,
        )
        return self.data.train_batches(plan=plan, skip=skip)

    def loss(self, network: nn.Module, machine: Machine) -> nn.Module:
        return BatchLoss(network, self.data, machine)

    def evaluation(self, model: nn.Module, machine: Machine, note: Note) -> Evaluation:
        return Evaluation(model, self.data, machine, often=True, note=note)

    def epoch(self, measured: Measured, projected: Measured | None, **facts: Any) -> EpochRecord:
        at_projected = None if projected is None else projected["accuracy"]
        return EpochRecord(
            **facts,
            accuracy=measured["accuracy"],
            accuracy_top5=measured.get("accuracy_top5"),
            accuracy_projected=at_projected,
        )

    def closing(
        self, model: nn.Module, evaluator: Evaluator, machine: Machine, seed: int
    ) -> Mapping[str, Any]:
        """The accuracy with batch statistics measured anew; the network's own are left alone."""
        images = images_after_training(plain(self.recipe), self.data, seed)
        with recalibrated(model, images, machine):
            machine.ranks.take_from_first(model.buffers())
            return {"last_recalibrated": evaluator.measured()["accuracy"]}

    def ending(
        self, epochs: Sequence[Any], closing: Mapping[str, Any], in_q: bool | None
    ) -> Summary:
        accuracies = [record.accuracy for record in epochs]
        return Summary(
            last=accuracies[-1],
            best_phase_two=max(accuracies[self.recipe.phase_two_epoch :], default=None),
            mean_last_5=fmean(accuracies[-5:]),
            in_q=in_q,
            last_top5=epochs[-1].accuracy_top5,
            **closing,
        )

    def split(self) -> dict[str, str | int] | None:
        if not self.recipe.held_out:
            return None
        data = self.data
        assert isinstance(data, ImageSet), "no other source can hold images out"
        digest = digest_of_tensors(data.test_images, data.test_labels)
        return {
            "trained_on": data.num_train,
            "held_out": data.num_test,
            "held_out_digest": digest,
        }


def task_for(recipe: Recipe, data: ImageSource | Material) -> Task:
    """The recipe's task with these data.

    Images that an image recipe holds out take the place of the test images.
    """
    if isinstance(data, Material):
        return data.task_for(recipe)
    if not isinstance(recipe, ImageRecipe):
        raise ValueError(f"{recipe.name} is trained on text, not on images")
    return ImageTask(recipe, data.holding_out(recipe.held_out) if recipe.held_out else data)


class BatchLoss(nn.Module):
    """The mean loss of a batch, from the rows that name its images.

    A module, because torch.compile then shares its work among networks of the same kind.
    """

    def __init__(self, network: nn.Module, data: ImageSource, machine: Machine) -> None:
        super().__init__()
        self.network, self.data, self.machine = network, data, machine

    def forward(self, *batch: Tensor) -> Tensor:
        """The cross entropy, float32."""
        images, labels = self.data.look_up(*batch)
        with self.machine.autocast():
            scores = self.network(images)
        return functional.cross_entropy(scores.float(), labels)
