"""Image sets small enough to live on the device as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from binaryrelax_lab.data.source import WHOLE, EpochPlan, ImageSource, Normalisation, Share


@dataclass(eq=False, kw_only=True)
class ImageSet(ImageSource):
    """Images as bytes (count, height, width, channels) and their labels (count,), on one device.

    Training batches are rows of four numbers: which image, whether mirrored (0 or 1), and by how
    many pixels the window on it is moved down and to the right. Test batches are image numbers.

    Args:
        mean: of every channel over the training pixels, scaled to [0, 1].
        deviation: the standard deviation, likewise.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    num_classes: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    _framed_images: Tensor = field(init=False, repr=False)
    _normalise: Normalisation = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A frame of one black pixel is enough for windows moved by any distance: coordinates
        # outside the image are clamped onto it.
        self._framed_images = functional.pad(self.train_images, (0, 0, 1, 1, 1, 1))
        self._normalise = Normalisation(self.mean, self.deviation, self.device)

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.train_images.device

    @property
    def num_channels(self) -> int:
        return self.train_images.shape[3]

    @property
    def num_train(self) -> int:
        return len(self.train_images)

    @property
    def num_test(self) -> int:
        return len(self.test_images)

    def to(self, device: torch.device) -> "ImageSet":
        """The same set with all of its tensors on `device`."""
        return replace(
            self,
            train_images=self.train_images.to(device),
            train_labels=self.train_labels.to(device),
            test_images=self.test_images.to(device),
            test_labels=self.test_labels.to(device),
        )

    def holding_out(self, count: int) -> "ImageSet":
        if not 0 < count < self.num_train:
            raise ValueError(
                f"held_out={count}: it must be above 0 and below {self.num_train}, the number of "
                "training images"
            )
        order = torch.randperm(self.num_train, generator=torch.Generator().manual_seed(0))
        held, kept = order[:count].to(self.device), order[count:].sort().values.to(self.device)
        return replace(
            self,
            train_images=self.train_images[kept],
            train_labels=self.train_labels[kept],
            test_images=self.train_images[held],
            test_labels=self.train_labels[held],
        )

    def train_batches(self, *, plan: EpochPlan, skip: int = 0) -> Iterator[tuple[Tensor]]:
        """Rows of (image, mirrored, down, right), int32, on the device of the images."""
        for rows in plan.batches(self._epoch_table(plan), skip=skip):
            yield (rows,)

    def test_batches(self, batch_size: int, share: Share = WHOLE) -> Iterator[tuple[Tensor]]:
        """Image numbers, int32, on the device of the images."""
        numbers = torch.arange(self.num_test, dtype=torch.int32, device=self.device)
        for part in share.batches(numbers, batch_size):
            yield (part,)

    def look_up(self, *batch: Tensor) -> tuple[Tensor, Tensor]:
        """The images that the rows ask for, cropped and mirrored by a single gather."""
        [rows] = batch
        image, mirrored, down, right = rows.long().unbind(1)
        y = self._window(down, self.train_images.shape[1])
        x = self._window(right, self.train_images.shape[2])
        x = torch.where(mirrored[:, None] == 1, x.flip(1), x)
        pixels = self._framed_images[image[:, None, None], y[:, :, None], x[:, None, :]]
        return self._normalise(pixels), self.train_labels[image]

    def look_up_test(self, *batch: Tensor) -> tuple[Tensor, Tensor]:
        """The test images of these numbers, as they are."""
        numbers = batch[0].long()
        return self._normalise(self.test_images[numbers]), self.test_labels[numbers]

    def _window(self, offsets: Tensor, size: int) -> Tensor:
        """Coordinates in the framed images (count, size) of windows moved by `offsets`."""
        coordinates = offsets[:, None] + torch.arange(1, size + 1, device=self.device)
        return coordinates.clamp(0, size + 1)

    def _epoch_table(self, plan: EpochPlan) -> Tensor:
        """One row for each image, in the order of the epoch."""
        count, device, padding = self.num_train, self.device, plan.crop_padding
        generator = torch.Generator(device)
        generator.manual_seed(int(plan.random_state.generate_state(1, np.uint64)[0]))
        order = torch.randperm(count, generator=generator, device=device)
        mirrored = torch.randint(0, 2, (count,), generator=generator, device=device)
        moves = torch.randint(-padding, padding + 1, (count, 2), generator=generator, device=device)
        table = torch.column_stack([order, mirrored * plan.flip, moves])
        return table.int()
