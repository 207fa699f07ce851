"""What the engine trains on, whether the images lie in memory or in a folder of files."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor


class ImagesNotFound(ValueError):
    """Image files are not where they were looked for, or not whole; it says where to get them."""


class CifarNotFound(ImagesNotFound):
    """They are images that can be downloaded."""


class CannotDownload(ImagesNotFound):
    """They were to be downloaded, which cannot be done."""


Rows = TypeVar("Rows", Tensor, np.ndarray)


@dataclass(frozen=True)
class Share:
    """The part of every batch that this process takes: `[rank::world_size]`."""

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"Share(rank={self.rank}, world_size={self.world_size}): rank must be at least 0 "
                "and below world_size"
            )

    def of(self, rows: Rows) -> Rows:
        """Those rows that this process takes; none, where there are fewer rows than processes."""
        return rows[self.rank :: self.world_size]

    def batches(self, rows: Rows, batch_size: int) -> Iterator[Rows]:
        """Those rows, `batch_size` at a time; the last batch may have fewer."""
        taken = self.of(rows)
        for start in range(0, len(taken), batch_size):
            yield taken[start : start + batch_size]


WHOLE = Share()


@dataclass(frozen=True, kw_only=True)
class EpochPlan:
    """Everything that decides the batches of one epoch.

    All that is random is a function of `seed` and `epoch`, the same in all processes: each draws
    the order of the whole epoch, cuts it into batches and takes its share of each.

    Args:
        batch_size: images of all processes together; the last batch of an epoch may have fewer.
        flip: mirror half of the images.
        crop_padding: shift the images by up to this many pixels; photographs in folders are
            cropped in their own way and ignore it.
    """

    seed: int
    epoch: int
    batch_size: int
    flip: bool = False
    crop_padding: int = 0
    share: Share = WHOLE

    def __post_init__(self) -> None:
        if self.batch_size < 1 or min(self.seed, self.epoch, self.crop_padding) < 0:
            raise ValueError(
                f"{self}: batch_size must be at least 1; seed, epoch and crop_padding at least 0"
            )

    @property
    def random_state(self) -> np.random.SeedSequence:
        """Where the randomness of the epoch begins; neighbouring seeds and epochs are unrelated."""
        return np.random.SeedSequence((self.seed, self.epoch))

    def batches(self, epoch: Rows, *, skip: int = 0) -> Iterator[Rows]:
        """This process's share of each batch, given one row per image in the epoch's order."""
        for start in range(skip * self.batch_size, len(epoch), self.batch_size):
            yield self.share.of(epoch[start : start + self.batch_size])


class ImageSource(ABC):
    """Images to train on and to test with, in batches that a CUDA graph can be replayed on.

    A batch is a tuple of tensors, and batches of the same length have the same shapes: the engine
    can copy them into fixed buffers. `look_up` and `look_up_test` then make images of them. They
    work on the device alone: no waiting, no random numbers, no shapes that depend on data.
    """

    num_classes: int
    reports_top5: bool = False

    @property
    @abstractmethod
    def num_channels(self) -> int:
        """1 for grey images, 3 for colour."""

    @property
    @abstractmethod
    def num_train(self) -> int:
        """The number of training images."""

    @property
    @abstractmethod
    def num_test(self) -> int:
        """The number of test images."""

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """The same source with its tensors, and those of its batches, on `device`."""

    def holding_out(self, count: int) -> Self:
        """The source with `count` of its training images to test with, instead of its own.

        They are the same ones every time. Its test images are not looked at.
        """
        raise ValueError(f"{type(self).__name__}: no images can be held out of this set")

    @abstractmethod
    def train_batches(self, *, plan: EpochPlan, skip: int = 0) -> Iterator[tuple[Tensor, ...]]:
        """The epoch's batches from number `skip` on, exactly as without skipping."""

    @abstractmethod
    def test_batches(self, batch_size: int, share: Share = WHOLE) -> Iterator[tuple[Tensor, ...]]:
        """This process's share of the test set, in order, `batch_size` images at a time."""

    @abstractmethod
    def look_up(self, *batch: Tensor) -> tuple[Tensor, Tensor]:
        """The images and labels of a training batch.

        Returns:
            Normalised float32 images (count, channels, height, width) with channels_last strides,
            and int64 labels (count,).
        """

    @abstractmethod
    def look_up_test(self, *batch: Tensor) -> tuple[Tensor, Tensor]:
        """The images and labels of a test batch, in the same form."""


class Normalisation:
    """Makes float images of pixels: (pixel / 255 - mean) / deviation, channel by channel.

    Args:
        mean: of every channel, with pixels scaled to [0, 1].
        deviation: the standard deviation, likewise.
    """

    def __init__(
        self, mean: tuple[float, ...], deviation: tuple[float, ...], device: torch.device
    ) -> None:
        exact = torch.tensor([mean, deviation], dtype=torch.float64)
        self.scale = (1 / (255 * exact[1])).float().to(device)
        self.shift = (-exact[0] / exact[1]).float().to(device)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Float images (count, channels, ...) of bytes (count, ..., channels), in channels_last."""
        return (pixels * self.scale + self.shift).permute(0, 3, 1, 2)
