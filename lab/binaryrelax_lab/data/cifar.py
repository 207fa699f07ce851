"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) from their official files, in either layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from binaryrelax_lab.data.cifar_files import (
    CIFAR10,
    CIFAR100,
    OFFICIAL_DIGESTS,
    Cifar,
    Decoded,
    find_files,
)
from binaryrelax_lab.data.download import check_digest, download
from binaryrelax_lab.data.image_set import ImageSet
from binaryrelax_lab.data.source import CifarNotFound

SETS = {"cifar10": CIFAR10, "cifar100": CIFAR100}
HOME = "https://www.cs.toronto.edu/~kriz/"


def load_cifar(name: str, data: Path, *, digests: Mapping[str, str] = OFFICIAL_DIGESTS) -> ImageSet:
    """The set called ``cifar10`` or ``cifar100``, the latter with its 100 fine labels.

    Args:
        data: a folder that is or holds an official folder or archive, or an archive itself.
        digests: what each official file hashes to, by its path in the archive.
    """
    cifar = SETS[name]
    try:
        (train_pixels, train_labels), (test_pixels, test_labels) = _read(cifar, data, digests)
    except ValueError as error:
        raise CifarNotFound(f"{cifar.title}: {error}; {_origin(cifar)}") from error
    return ImageSet(
        train_images=_images(train_pixels),
        train_labels=torch.from_numpy(train_labels.astype(np.int64)),
        test_images=_images(test_pixels),
        test_labels=torch.from_numpy(test_labels.astype(np.int64)),
        num_classes=cifar.num_classes,
        mean=cifar.mean,
        deviation=cifar.deviation,
    )


def download_cifar(
    name: str,
    folder: Path,
    *,
    home: str = HOME,
    digests: Mapping[str, str] = OFFICIAL_DIGESTS,
) -> Path:
    """Fetches the official archive of the binary layout (it holds no pickle), returns its path."""
    archive = SETS[name].layouts[0].archive
    download(home + archive, folder / archive, digests[archive])
    return folder / archive


def fetch_missing_cifar(name: str, data: Path, **source: Any) -> None:
    """Downloads the set unless `data` is or holds official files of it, complete or not."""
    if find_files(SETS[name].layouts, data) is None:
        download_cifar(name, data, **source)


def _read(cifar: Cifar, data: Path, digests: Mapping[str, str]) -> tuple[Decoded, Decoded]:
    """The training and the test part, from the first layout that is there."""
    files = find_files(cifar.layouts, data)
    if files is None:
        names = ", ".join(n for layout in cifar.layouts for n in (layout.folder, layout.archive))
        raise ValueError(f"{data} neither is nor holds any of {names}")
    layout, parts = files.layout, {}
    for name, content in files.read().items():
        try:
            check_digest(content, digests[f"{layout.folder}/{name}"])
            parts[name] = layout.decode(content)
            _check_labels(parts[name][1], cifar.num_classes)
        except ValueError as error:
            raise ValueError(f"{files.describe(name)} is damaged: {error}; delete it") from error
    pixels, labels = zip(*(parts[name] for name in layout.train_files), strict=True)
    return (np.concatenate(pixels), np.concatenate(labels)), parts[layout.test_file]


def _check_labels(labels: np.ndarray, num_classes: int) -> None:
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= num_classes:
        raise ValueError(
            f"labels between {labels.min()} and {labels.max()}, not 0…{num_classes - 1}"
        )


def _images(pixels: np.ndarray) -> Tensor:
    """Images (count, 32, 32, 3) of rows that hold one colour after the other."""
    planes = pixels.reshape(-1, 3, 32, 32)
    return torch.from_numpy(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)))


def _origin(cifar: Cifar) -> str:
    archives = " or ".join(layout.archive for layout in cifar.layouts)
    return f"get {archives} from {HOME}cifar.html"
