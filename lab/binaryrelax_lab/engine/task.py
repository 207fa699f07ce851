"""What a network is trained to do: where its data come from, its loss, and how it is measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from binaryrelax import Binary, BinaryRelax, SelectedWeights, select_weights
from binaryrelax_lab.data import Share
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import Ending, Epoch, TrainingResult

Measured = dict[str, float]
Note = Callable[[str], None]


class Evaluator(Protocol):
    """Measures a network as it is at the moment."""

    def measured(self) -> Measured:
        """Figures of it, by their names; all processes must ask."""


@runtime_checkable
class Quantizing(Protocol):
    """What an optimizer that quantizes tells of itself: `BinaryRelax`, or another in its place."""

    @property
    def phase(self) -> int:
        """1, or 2 once the weights are held in Q."""

    @property
    def strength(self) -> float | None:
        """The λ that wrote the weights; None if it knows of no λ."""

    def projected(self) -> AbstractContextManager[None]:
        """Inside, the network holds the weights that Phase II would give it now."""


class Task(ABC):
    """A recipe with the data that it is trained on.

    A batch is a tuple of tensors, and batches of the same length have the same shapes: the engine
    can copy them into the fixed buffers of a CUDA graph.

    Attributes:
        recipe: the settings of the run.
        result_type: what a run leaves.
        clip: the norm that gradients are cut back to; None leaves them alone.
        is_capturable: whether a CUDA graph can hold its steps: all that changes is on the device.
    """

    recipe: Recipe
    result_type: type[TrainingResult]
    clip: float | None = None
    is_capturable: bool = True

    @property
    @abstractmethod
    def num_examples(self) -> int:
        """How many an epoch has."""

    @property
    def digest(self) -> str | None:
        """Of the data, where others of the same name may be about."""
        return None

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """The same task with its data on `device`."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The network, with first weights from torch's generator."""

    @abstractmethod
    def place(self, model: nn.Module, machine: Machine) -> None:
        """Brings the network to the machine, in the layout that is fastest there."""

    def select(self, model: nn.Module) -> SelectedWeights:
        """The weights to quantize; in a float run those that the other methods would."""
        quantizer = self.recipe.quantizer or Binary()
        return select_weights(model, quantizer, keep_float=self.recipe.keep_float)

    @abstractmethod
    def base_optimizer(self, model: nn.Module, machine: Machine) -> Optimizer:
        """What moves the weights, float ones and y."""

    def optimizer(
        self, base: Optimizer, weights: SelectedWeights, steps_per_epoch: int
    ) -> Optimizer:
        """`base`, or what quantizes on top of it; then the network holds relaxed weights."""
        if self.recipe.quantizer is None:
            return base
        return BinaryRelax(base, weights, self.recipe.schedule(steps_per_epoch))

    @abstractmethod
    def batches(
        self, *, seed: int, epoch: int, share: Share, skip: int = 0
    ) -> Iterator[tuple[Tensor, ...]]:
        """This process's share of the epoch's batches, from number `skip` on."""

    @abstractmethod
    def loss(self, network: nn.Module, machine: Machine) -> nn.Module:
        """A module that makes the mean loss of a batch, float32."""

    @abstractmethod
    def evaluation(self, model: nn.Module, machine: Machine, note: Note) -> Evaluator:
        """What measures the network after each epoch."""

    @abstractmethod
    def epoch(self, measured: Measured, projected: Measured | None, **facts: Any) -> Epoch:
        """The record of an epoch.

        Args:
            measured: at x.
            projected: at proj(y), where that was measured.
            facts: what all epochs tell.
        """

    @abstractmethod
    def closing(
        self, model: nn.Module, evaluator: Evaluator, machine: Machine, seed: int
    ) -> Mapping[str, Any]:
        """What is measured once, at the end, for the summary; all processes must ask."""

    @abstractmethod
    def ending(
        self, epochs: Sequence[Any], closing: Mapping[str, Any], in_q: bool | None
    ) -> Ending:
        """The summary of a run with these records."""

    def split(self) -> dict[str, str | int] | None:
        """What was trained on and measured with, where the recipe does not say it all."""
        return None


class Material(ABC):
    """Data other than images, which know what is to be done with them."""

    @abstractmethod
    def task_for(self, recipe: Recipe) -> Task:
        """The recipe's task; a `ValueError` if the recipe is for other data."""
