"""The training loop."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from binaryrelax import Binary, BinaryRelax, Quantizer, select_weights
from binaryrelax_lab.data import EpochPlan, ImageSource
from binaryrelax_lab.engine.compiled import Compiled
from binaryrelax_lab.engine.cuda_graph import GraphedFunction
from binaryrelax_lab.engine.evaluation import Evaluation
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.network import new_network, place, take_over
from binaryrelax_lab.engine.recalibration import images_after_training, recalibrated
from binaryrelax_lab.recipes import Recipe, plain
from binaryrelax_lab.results import EpochRecord


class Trainer:
    """A network on its way through a recipe.

    Everything random comes from `seed`: the initial weights, the order of the images and their
    augmentation. The global generator of torch is left as it was.

    On a GPU the whole step (looking up the images, forward, backward, optimizer and relaxation) is
    compiled and captured in a CUDA graph; the learning rate and λ are scalars on the device.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: ImageSource,
        *,
        seed: int,
        machine: Machine | None = None,
        initial: dict[str, Tensor] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.recipe, self.seed, self.note = recipe, seed, note
        self.machine = machine or Machine()
        self.data = data.to(self.machine.device)
        self.model = new_network(recipe, data, seed)
        if initial is not None:
            take_over(self.model, initial, recipe)
        place(self.model, self.machine)
        self.num_steps = 0
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.machine.device)
        # In a float run these are the weights that the other methods would quantize.
        self.weights = select_weights(
            self.model, recipe.quantizer or Binary(), keep_float=recipe.keep_float
        )

    def start(self) -> None:
        """Makes the optimizer; from here on a quantized network holds relaxed weights."""
        machine = self.machine
        is_repeatable = machine.deterministic or not machine.is_gpu
        self.network = machine.ranks.parallel(self.model, in_fixed_order=is_repeatable)
        self._make_optimizer()
        self.evaluation = Evaluation(self.model, self.data, machine, often=True, note=self.note)
        self._loss: Callable[..., Tensor] = BatchLoss(self.network, self.data, machine)
        self._step: Callable[..., None] = self._take_step
        if machine.is_gpu and machine.ranks.is_group:
            self.note("several processes: each step is launched kernel by kernel, not as a graph")
        elif machine.is_gpu:
            self._loss = Compiled(
                self._loss,
                length=self.recipe.batch_size,
                slower=lambda why: self.note(f"not compiled, steps are slower: {why}"),
            )
            self._step = GraphedFunction(
                self._take_step,
                before_replay=self._prepare_replay,
                on_failure=lambda why: self.note(f"no CUDA graph, steps are slower: {why}"),
            )

    @property
    def steps_per_epoch(self) -> int:
        """The last step of an epoch may have fewer images."""
        return math.ceil(self.data.num_train / self.recipe.batch_size)

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

        Yields the number of images of each, those of all processes.
        """
        if self.steps_in_epoch == 0:
            self.loss_sum.zero_()
        plan = EpochPlan(
            seed=self.seed,
            epoch=self.epoch,
            batch_size=self.recipe.batch_size,
            flip=self.recipe.flip,
            crop_padding=self.recipe.crop_padding,
            share=self.machine.ranks.share,
        )
        self.model.train()
        for batch in self.data.train_batches(plan=plan, skip=self.steps_in_epoch):
            self._set_learning_rate()
            num_images = self._images_in_step()
            self._step(*batch)
            self.num_steps += 1
            yield num_images

    def epoch_record(self) -> EpochRecord:
        """What is recorded of the epoch just ended."""
        epoch, train_loss = self.epoch - 1, self._mean_loss()
        if not math.isfinite(train_loss):
            raise ValueError(
                f"{self.recipe.name}: the loss is {train_loss} in epoch {epoch}; training has "
                "diverged, lower the learning rate (lr)"
            )
        self._share_buffers()
        accuracies = self.evaluation.accuracies()
        return EpochRecord(
            epoch=epoch,
            phase=self.phase,
            strength=self.strength,
            lr=self._learning_rate(self.num_steps - 1),
            train_loss=train_loss,
            **accuracies,
            accuracy_projected=self._accuracy_projected(accuracies["accuracy"]),
        )

    def accuracy_recalibrated(self) -> float:
        """The accuracy with batch statistics measured anew; the network's own are left alone."""
        images = images_after_training(plain(self.recipe), self.data, self.seed)
        with recalibrated(self.model, images, self.machine):
            self._share_buffers()
            return self.evaluation.accuracies()["accuracy"]

    @property
    def phase(self) -> int | None:
        """1 or 2; None in a float run."""
        return self.optimizer.phase if isinstance(self.optimizer, BinaryRelax) else None

    @property
    def strength(self) -> float | None:
        """The λ that wrote the weights in the network; None in a float run."""
        return self.optimizer.strength if isinstance(self.optimizer, BinaryRelax) else None

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
        base = torch.optim.SGD(
            self.model.parameters(),
            lr=self.recipe.lr,
            momentum=self.recipe.momentum,
            weight_decay=self.recipe.weight_decay,
            fused=self.machine.is_gpu or None,
        )
        self.optimizer: torch.optim.Optimizer = base
        if self.recipe.quantizer is not None:
            schedule = self.recipe.schedule(self.steps_per_epoch)
            self.optimizer = BinaryRelax(base, self.weights, schedule)
        self._use_device_learning_rate()

    def _use_device_learning_rate(self) -> None:
        """On a GPU the learning rate is a scalar there: a graph reads it anew at each replay."""
        if not self.machine.is_gpu:
            return
        if not hasattr(self, "_device_lr"):
            self._device_lr = torch.zeros((), device=self.machine.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self._device_lr

    def _learning_rate(self, step: int) -> float:
        factor = self.recipe.lr_schedule.factor(step / self.steps_per_epoch, self.recipe.epochs)
        return self.recipe.lr * factor

    def _set_learning_rate(self) -> None:
        rate = self._learning_rate(self.num_steps)
        if self.machine.is_gpu:
            self._device_lr.fill_(rate)
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _take_step(self, *batch: Tensor) -> None:
        """One step of training: gradient at x, move y, write the new x."""
        num_images = len(batch[0])
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(*(batch if num_images else _blank(batch)))
        self._shared(loss, num_images).backward()
        self.optimizer.step()
        self.loss_sum += loss.detach() * num_images

    def _shared(self, loss: Tensor, num_images: int) -> Tensor:
        """The loss, weighted so that its mean over processes is the mean over images."""
        if not self.machine.ranks.is_group:
            return loss
        world_size = self.machine.ranks.share.world_size
        return loss * (num_images * world_size / self._images_in_step())

    def _images_in_step(self) -> int:
        """How many images the next step has, in all processes together."""
        done = self.steps_in_epoch * self.recipe.batch_size
        return min(self.recipe.batch_size, self.data.num_train - done)

    def _prepare_replay(self) -> None:
        if isinstance(self.optimizer, BinaryRelax):
            self.optimizer.prepare_step()

    def _mean_loss(self) -> float:
        """The mean over all images of the epoch, and over all processes."""
        return self.machine.ranks.total(self.loss_sum).item() / self.data.num_train

    def _share_buffers(self) -> None:
        """Every process goes on with the statistics of the first, as it does with its weights."""
        self.machine.ranks.take_from_first(self.model.buffers())

    def _accuracy_projected(self, accuracy: float) -> float | None:
        """The accuracy at proj(y); in Phase II this is where the network is anyway."""
        if not isinstance(self.optimizer, BinaryRelax):
            return None
        if self.strength == math.inf:
            return accuracy
        with self.optimizer.projected():
            return self.evaluation.accuracies()["accuracy"]


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


def _blank(batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A batch of one image that counts for nothing.

    For a process that has no part in a small batch: the others wait for its gradients all the same.
    """
    return tuple(tensor.new_zeros(1, *tensor.shape[1:]) for tensor in batch)
