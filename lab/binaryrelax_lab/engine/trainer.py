"""The training loop."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from binaryrelax import BinaryRelax, Quantizer
from binaryrelax_lab.data import ImageSource
from binaryrelax_lab.engine.compiled import Compiled
from binaryrelax_lab.engine.cuda_graph import GraphedFunction
from binaryrelax_lab.engine.image_task import task_for
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.network import new_network, take_over
from binaryrelax_lab.engine.task import Material, Measured, Quantizing
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import Epoch


class Diverged(ValueError):
    """A loss is no number any more."""


class Trainer:
    """A network on its way through a recipe.

    Everything random comes from `seed`: the initial weights, the order of the examples and their
    augmentation. The global generator of torch is left as it was.

    On a GPU the whole step (looking up the examples, forward, backward, optimizer, relaxation) is
    compiled and captured in a CUDA graph, if the task allows it; the learning rate and λ are
    scalars on the device then.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: ImageSource | Material,
        *,
        seed: int,
        machine: Machine | None = None,
        initial: dict[str, Tensor] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.recipe, self.seed, self.note = recipe, seed, note
        self.machine = machine or Machine()
        self.task = task_for(recipe, data).to(self.machine.device)
        self.model = new_network(self.task, seed)
        if initial is not None:
            take_over(self.model, initial, recipe)
        self.task.place(self.model, self.machine)
        self.num_steps = 0
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.machine.device)
        self.weights = self.task.select(self.model)

    def start(self) -> None:
        """Makes the optimizer; from here on a quantized network holds relaxed weights."""
        machine = self.machine
        is_repeatable = machine.deterministic or not machine.is_gpu
        self.network = machine.ranks.parallel(self.model, in_fixed_order=is_repeatable)
        self._make_optimizer()
        self.evaluation = self.task.evaluation(self.model, machine, self.note)
        self._loss: Callable[..., Tensor] = self.task.loss(self.network, machine)
        self._step: Callable[..., None] = self._take_step
        if machine.is_gpu and machine.ranks.is_group:
            self.note("several processes: each step is launched kernel by kernel, not as a graph")
        elif machine.is_gpu:
            self._loss = Compiled(
                self._loss,
                length=self.recipe.batch_size,
                slower=lambda why: self.note(f"not compiled, steps are slower: {why}"),
            )
            if self.task.is_capturable:
                self._step = GraphedFunction(
                    self._take_step,
                    before_replay=self._prepare_replay,
                    on_failure=lambda why: self.note(f"no CUDA graph, steps are slower: {why}"),
                )
            else:
                self.note("no CUDA graph, steps are slower: its optimizer computes on the host")

    @property
    def steps_per_epoch(self) -> int:
        """The last step of an epoch may have fewer examples."""
        return math.ceil(self.task.num_examples / self.recipe.batch_size)

    @property
    def epoch(self) -> int:
        """The epoch that the next step belongs to."""
        return self.num_steps // self.steps_per_epoch

    @property
    def steps_in_epoch(self) -> int:
        """How many steps of that epoch have been taken."""
        return self.num_steps % self.steps_per_epoch

    @property
    def named_quantizers(self) -> dict[str, Quantizer | None]:
        """The set that each layer should end in, by the weight's name; None in a float run."""
        is_float = self.recipe.quantizer is None
        names = self.weights.names
        return {names[w]: None if is_float else q for w, q in self.weights.items()}

    def steps(self) -> Iterator[int]:
        """Takes the steps that the current epoch still needs, one each time it is asked to.

        Yields the number of examples of each, those of all processes.
        """
        if self.steps_in_epoch == 0:
            self.loss_sum.zero_()
        batches = self.task.batches(
            seed=self.seed,
            epoch=self.epoch,
            share=self.machine.ranks.share,
            skip=self.steps_in_epoch,
        )
        self.model.train()
        for batch in batches:
            self._set_learning_rate()
            num_examples = self._examples_in_step()
            self._step(*batch)
            self.num_steps += 1
            yield num_examples

    def epoch_record(self) -> Epoch:
        """What is recorded of the epoch just ended."""
        epoch, train_loss = self.epoch - 1, self._mean_loss()
        if not math.isfinite(train_loss):
            raise Diverged(
                f"{self.recipe.name}: the loss is {train_loss} in epoch {epoch}; training has "
                "diverged, lower the learning rate (lr)"
            )
        self._share_buffers()
        measured = self.evaluation.measured()
        return self.task.epoch(
            measured,
            self._measured_projected(measured),
            epoch=epoch,
            phase=self.phase,
            strength=self.strength,
            lr=self._learning_rate(self.num_steps - 1),
            train_loss=train_loss,
        )

    def closing(self) -> Mapping[str, Any]:
        """What is measured once, at the end."""
        return self.task.closing(self.model, self.evaluation, self.machine, self.seed)

    @property
    def phase(self) -> int | None:
        """1 or 2; None in a float run."""
        return self.optimizer.phase if isinstance(self.optimizer, Quantizing) else None

    @property
    def strength(self) -> float | None:
        """The λ that wrote the weights in the network; None in a float run, or if there is none."""
        return self.optimizer.strength if isinstance(self.optimizer, Quantizing) else None

    def state(self) -> dict[str, Any]:
        """All that is needed to go on from here to the same bits; all processes must ask for it."""
        return {
            "num_steps": self.num_steps,
            "loss_sum": self.machine.ranks.gathered(self.loss_sum),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `state` gave."""
        self.num_steps = state["num_steps"]
        self.loss_sum.copy_(self.machine.ranks.share.of(state["loss_sum"].view(-1)).sum())
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._use_device_learning_rate()

    def _make_optimizer(self) -> None:
        base = self.task.base_optimizer(self.model, self.machine)
        self.optimizer = self.task.optimizer(base, self.weights, self.steps_per_epoch)
        self._use_device_learning_rate()

    def _use_device_learning_rate(self) -> None:
        """On a GPU the learning rate is a scalar there: a graph reads it anew at each replay."""
        if not self._lr_is_on_device:
            return
        if not hasattr(self, "_device_lr"):
            self._device_lr = torch.zeros((), device=self.machine.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self._device_lr

    @property
    def _lr_is_on_device(self) -> bool:
        """An optimizer that computes on the host would have to fetch it from there."""
        return self.machine.is_gpu and self.task.is_capturable

    def _learning_rate(self, step: int) -> float:
        factor = self.recipe.lr_schedule.factor(step / self.steps_per_epoch, self.recipe.epochs)
        return self.recipe.lr * factor

    def _set_learning_rate(self) -> None:
        rate = self._learning_rate(self.num_steps)
        if self._lr_is_on_device:
            self._device_lr.fill_(rate)
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _take_step(self, *batch: Tensor) -> None:
        """One step of training: gradient at x, move y, write the new x."""
        num_examples = len(batch[0])
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(*(batch if num_examples else _blank(batch)))
        self._shared(loss, num_examples).backward()
        if self.task.clip is not None:
            clip_grad_norm_(self.model.parameters(), self.task.clip)
        self.optimizer.step()
        self.loss_sum += loss.detach() * num_examples

    def _shared(self, loss: Tensor, num_examples: int) -> Tensor:
        """The loss, weighted so that its mean over processes is the mean over examples."""
        if not self.machine.ranks.is_group:
            return loss
        world_size = self.machine.ranks.share.world_size
        return loss * (num_examples * world_size / self._examples_in_step())

    def _examples_in_step(self) -> int:
        """How many examples the next step has, in all processes together."""
        done = self.steps_in_epoch * self.recipe.batch_size
        return min(self.recipe.batch_size, self.task.num_examples - done)

    def _prepare_replay(self) -> None:
        if isinstance(self.optimizer, BinaryRelax):
            self.optimizer.prepare_step()

    def _mean_loss(self) -> float:
        """The mean over all examples of the epoch, and over all processes."""
        return self.machine.ranks.total(self.loss_sum).item() / self.task.num_examples

    def _share_buffers(self) -> None:
        """Every process goes on with the statistics of the first, as it does with its weights."""
        self.machine.ranks.take_from_first(self.model.buffers())

    def _measured_projected(self, measured: Measured) -> Measured | None:
        """The same at proj(y); in Phase II this is where the network is anyway."""
        if not isinstance(self.optimizer, Quantizing):
            return None
        if self.strength == math.inf:
            return measured
        with self.optimizer.projected():
            return self.evaluation.measured()


def _blank(batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A batch of one example that counts for nothing.

    For a process that has no part in a small batch: the others wait for its gradients all the same.
    """
    return tuple(tensor.new_zeros(1, *tensor.shape[1:]) for tensor in batch)
