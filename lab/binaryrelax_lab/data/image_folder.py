"""Photographs in folders, one per class, decoded while the network trains: ImageNet."""

import os
import signal
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from binaryrelax_lab.data.photographs import centre_view, open_photograph, random_view
from binaryrelax_lab.data.source import (
    WHOLE,
    CannotDownload,
    EpochPlan,
    ImagesNotFound,
    ImageSource,
    Normalisation,
    Share,
)

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's training pixels
SUFFIXES = (".jpg", ".jpeg", ".png")
USUAL_SIZE = 224


@dataclass(frozen=True)
class Files:
    """The images below a folder: ``<class>/<file>``.

    Args:
        names: paths below `folder`, as bytes; an array, because workers share it without copying.
        labels: the number of each image's class.
    """

    folder: Path
    names: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]

    def path(self, index: int) -> Path:
        """The file of one image."""
        return self.folder / os.fsdecode(self.names[index])


def find_images(folder: Path) -> Files:
    """The images of every class, both in the order of their names."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is missing")
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    if not classes:
        raise ValueError(f"{folder} holds no folders, one for each class")
    names, labels = [], []
    for label, name in enumerate(classes):
        found = sorted(f for f in os.listdir(folder / name) if f.lower().endswith(SUFFIXES))
        if not found:
            raise ValueError(f"{folder / name} holds no image ({', '.join(SUFFIXES)})")
        names += [os.fsencode(os.path.join(name, file)) for file in found]
        labels += [label] * len(found)
    return Files(folder, np.array(names), np.array(labels, np.int64), tuple(classes))


@dataclass(frozen=True)
class RandomViews:
    """The training images of an epoch; what each shows depends on seed, epoch and image alone."""

    files: Files
    image_size: int
    plan: EpochPlan

    def __call__(self, number: int) -> np.ndarray:
        # Counted from 1: a trailing zero would give the random state of the whole epoch.
        entropy = np.random.SeedSequence((self.plan.seed, self.plan.epoch, number + 1))
        image = open_photograph(self.files.path(number))
        random = np.random.default_rng(entropy)
        return random_view(image, self.image_size, flip=self.plan.flip, random=random)


@dataclass(frozen=True)
class CentreViews:
    """The test images."""

    files: Files
    image_size: int

    def __call__(self, number: int) -> np.ndarray:
        return centre_view(open_photograph(self.files.path(number)), self.image_size)


@dataclass(frozen=True)
class DecodedBatches(Dataset[tuple[Tensor, Tensor] | str]):
    """What the workers do: make a batch of the numbers of its images.

    An error is returned, not raised: a traceback of the worker would be put in front of it.
    """

    views: RandomViews | CentreViews

    def __getitem__(self, numbers: np.ndarray) -> tuple[Tensor, Tensor] | str:
        size = self.views.image_size
        images = np.empty((len(numbers), size, size, 3), np.uint8)
        try:
            for image, number in zip(images, numbers, strict=True):
                image[:] = self.views(int(number))
        except ValueError as error:
            return str(error)
        return torch.from_numpy(images), torch.from_numpy(self.views.files.labels[numbers])


class ImageFolder(ImageSource):
    """A tree ``train/<class>/*.jpeg`` and ``val/<class>/*.jpeg``, the latter to test with.

    Batches are images as bytes (count, height, width, 3) and labels (count,). Training images are
    random parts of the photographs, test images their middle.

    Args:
        image_size: height and width of the images that the network gets.
        num_workers: processes that decode; 0 decodes in this one. Up to 8 if not given.
    """

    reports_top5 = True

    def __init__(
        self, root: Path, *, image_size: int = USUAL_SIZE, num_workers: int | None = None
    ) -> None:
        self.train_files, self.test_files = _find_parts(root)
        self.num_classes = len(self.train_files.classes)
        self.image_size = image_size
        self.num_workers = min(8, _num_cores()) if num_workers is None else num_workers
        self._settle(torch.device("cpu"))

    @property
    def num_channels(self) -> int:
        return 3

    @property
    def num_train(self) -> int:
        return len(self.train_files.names)

    @property
    def num_test(self) -> int:
        return len(self.test_files.names)

    def to(self, device: torch.device) -> "ImageFolder":
        """The same tree, with its batches on `device`."""
        moved = copy(self)
        moved._settle(torch.device(device))
        return moved

    def train_batches(self, *, plan: EpochPlan, skip: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Random parts of the training images."""
        order = np.random.default_rng(plan.random_state).permutation(self.num_train)
        views = RandomViews(self.train_files, self.image_size, plan)
        return self._load(views, list(plan.batches(order, skip=skip)))

    def test_batches(
        self, batch_size: int, share: Share = WHOLE
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The middles of the test images."""
        views = CentreViews(self.test_files, self.image_size)
        return self._load(views, list(share.batches(np.arange(self.num_test), batch_size)))

    def look_up(self, *batch: Tensor) -> tuple[Tensor, Tensor]:
        """The images, normalised."""
        images, labels = batch
        return self._normalise(images), labels

    def look_up_test(self, *batch: Tensor) -> tuple[Tensor, Tensor]:
        """Likewise: they were cut out when they were read."""
        return self.look_up(*batch)

    def _settle(self, device: torch.device) -> None:
        self.device = device
        self._normalise = Normalisation(MEAN, DEVIATION, device)

    def _load(
        self, views: RandomViews | CentreViews, numbers: list[np.ndarray]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The decoded batches in order, on the device."""
        on_gpu = self.device.type == "cuda"
        if self.num_workers:
            _start_deaf_server()
        loader = DataLoader(
            DecodedBatches(views),
            batch_size=None,
            sampler=numbers,
            num_workers=self.num_workers,
            pin_memory=on_gpu,
            # A plain fork would copy locks that threads of the training process hold: it can hang.
            multiprocessing_context="forkserver" if self.num_workers else None,
            generator=torch.Generator(),  # else it would draw from the global one
        )
        for batch in loader:
            if isinstance(batch, str):
                raise ValueError(batch)
            images, labels = batch
            yield (
                images.to(self.device, non_blocking=on_gpu),
                labels.to(self.device, non_blocking=on_gpu),
            )


def _start_deaf_server() -> None:
    """Starts the process that decoders are forked from, so that it and they never see signals.

    Those who end a run signal the whole group, as torchrun and timeout do; but the process that
    trains needs its images until it has written a checkpoint. Signals are blocked, not ignored:
    torch gives its loaders' workers a handler that dies of SIGTERM, and a signal that reaches this
    process meanwhile is kept for later.
    """
    resource_tracker.ensure_running()  # its own start, inside the next one, would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def load_imagenet(data: Path, *, download: bool = False) -> ImageFolder:
    """The tree in `data`, or in its folder ``imagenet``."""
    inner = data / "imagenet"
    try:
        return ImageFolder(inner if inner.is_dir() and not (data / "train").exists() else data)
    except ValueError as error:
        kind = CannotDownload if download else ImagesNotFound
        message = f"ImageNet: {error}; get it from https://image-net.org, which needs an account"
        raise kind(message) from error


def _num_cores() -> int:
    """The cores that this process may use; not every system tells them from those there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _find_parts(root: Path) -> tuple[Files, Files]:
    """The training and the test images; both must have the same classes."""
    train, test = find_images(root / "train"), find_images(root / "val")
    for one, other in ((train, test), (test, train)):
        if lacking := sorted(set(one.classes) - set(other.classes)):
            raise ValueError(
                f"{other.folder} lacks {len(lacking)} of the {len(one.classes)} classes in "
                f"{one.folder}, for instance {lacking[0]}"
            )
    return train, test
