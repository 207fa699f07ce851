"""The training loop."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from binaryrelax import Binary, BinaryRelax, Quantizer, select_weights
from binaryrelax.lab.data import ImageSet
from binaryrelax.lab.data.augmentation import flipped, shifted
from binaryrelax.lab.models import build_network
from binaryrelax.lab.recipes import Recipe, plain

TEST_BATCH = 500


class Trainer:
    """A network on its way through a recipe.

    Everything random comes from `seed`: the initial weights, the order of the images and their
    augmentation. The global generator of torch is left as it was.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: ImageSet,
        *,
        seed: int,
        initial: dict[str, Tensor] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.recipe = recipe
        self.device = device or torch.device("cpu")
        self.data = data.to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.model = _network(recipe, data, seed)
        if initial is not None:
            self.model.load_state_dict(initial)
        self.model.to(device=self.device, memory_format=torch.channels_last)
        self.num_steps = 0
        # In a float run these are the weights that the other methods would quantize.
        self.weights = select_weights(
            self.model, recipe.quantizer or Binary(), keep_float=recipe.keep_float
        )

    def start(self) -> None:
        """Makes the optimizer; from here on a quantized network holds relaxed weights."""
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=self.recipe.lr,
            momentum=self.recipe.momentum,
            weight_decay=self.recipe.weight_decay,
        )
        if self.recipe.quantizer is not None:
            schedule = self.recipe.schedule(self.steps_per_epoch)
            self.optimizer = BinaryRelax(self.optimizer, self.weights, schedule)

    @property
    def steps_per_epoch(self) -> int:
        """The last step of an epoch may have fewer images."""
        return math.ceil(len(self.data.train_images) / self.recipe.batch_size)

    @property
    def named_quantizers(self) -> dict[str, Quantizer | None]:
        """The set that each layer should end in, by the weight's name; None in a float run."""
        is_float = self.recipe.quantizer is None
        names = self.weights.names
        return {names[w]: None if is_float else q for w, q in self.weights.items()}

    def train_epoch(self, step_finished: Callable[[], None]) -> float:
        """Trains on every image once and returns the mean loss."""
        self.model.train()
        total_loss = torch.zeros((), device=self.device)
        for images, labels in self._batches():
            self._set_learning_rate()
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            self.num_steps += 1
            total_loss += loss.detach() * len(images)
            step_finished()
        return total_loss.item() / len(self.data.train_images)

    @torch.no_grad()
    def accuracy(self) -> float:
        """The share of test images that the network, as it is now, gets right; in percent."""
        self.model.eval()
        num_right = torch.zeros((), dtype=torch.long, device=self.device)
        parts = zip(
            self.data.test_images.split(TEST_BATCH),
            self.data.test_labels.split(TEST_BATCH),
            strict=True,
        )
        for images, labels in parts:
            num_right += (self.model(images).argmax(dim=1) == labels).sum()
        return 100 * num_right.item() / len(self.data.test_images)

    def epoch_record(self, epoch: int, train_loss: float) -> dict[str, Any]:
        """The entry of an epoch in ``result.json``; an infinite λ is the string "inf"."""
        if not math.isfinite(train_loss):
            raise ValueError(
                f"{self.recipe.name}: the loss is {train_loss} in epoch {epoch}; training has "
                "diverged, lower the learning rate"
            )
        accuracy = self.accuracy()
        return {
            "epoch": epoch,
            "phase": self.phase,
            "strength": plain(self.strength),
            "lr": self.optimizer.param_groups[0]["lr"],
            "train_loss": train_loss,
            "accuracy": accuracy,
            "accuracy_projected": self._accuracy_projected(accuracy),
        }

    @property
    def phase(self) -> int | None:
        """1 or 2; None in a float run."""
        return self.optimizer.phase if isinstance(self.optimizer, BinaryRelax) else None

    @property
    def strength(self) -> float | None:
        """The λ that wrote the weights in the network; None in a float run."""
        return self.optimizer.strength if isinstance(self.optimizer, BinaryRelax) else None

    def _accuracy_projected(self, accuracy: float) -> float | None:
        """The accuracy at proj(y); in Phase II this is where the network is anyway."""
        if not isinstance(self.optimizer, BinaryRelax):
            return None
        if self.strength == math.inf:
            return accuracy
        with self.optimizer.projected():
            return self.accuracy()

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The training images once, in random order, augmented."""
        recipe, data = self.recipe, self.data
        count = len(data.train_images)
        order = torch.randperm(count, generator=self.generator, device=self.device)
        for chosen in order.split(recipe.batch_size):
            images = data.train_images[chosen]
            if recipe.flip:
                images = flipped(images, self.generator)
            if recipe.crop_padding:
                images = shifted(images, recipe.crop_padding, data.background, self.generator)
            yield images.contiguous(memory_format=torch.channels_last), data.train_labels[chosen]

    def _set_learning_rate(self) -> None:
        epoch = self.num_steps / self.steps_per_epoch
        factor = self.recipe.lr_schedule.factor(epoch, self.recipe.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr * factor


def _network(recipe: Recipe, data: ImageSet, seed: int) -> nn.Module:
    """A network whose first weights depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_network(recipe.network, data.num_channels, data.num_classes)
