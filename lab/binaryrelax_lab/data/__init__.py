"""Image sets: what a network is trained on and tested with."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from binaryrelax_lab.data.cifar import (
    SETS as CIFAR_SETS,
    download_cifar as download_cifar,
    fetch_missing_cifar as fetch_missing_cifar,
    load_cifar as load_cifar,
)
from binaryrelax_lab.data.fashion_mnist import (
    DEVIATION as FASHION_MNIST_DEVIATION,
    MEAN as FASHION_MNIST_MEAN,
    load_fashion_mnist as load_fashion_mnist,
)
from binaryrelax_lab.data.image_folder import (
    DEVIATION as IMAGENET_DEVIATION,
    MEAN as IMAGENET_MEAN,
    ImageFolder as ImageFolder,
    load_imagenet as load_imagenet,
)
from binaryrelax_lab.data.image_set import ImageSet as ImageSet
from binaryrelax_lab.data.source import (
    CannotDownload as CannotDownload,
    CifarNotFound as CifarNotFound,
    EpochPlan as EpochPlan,
    ImagesNotFound as ImagesNotFound,
    ImageSource as ImageSource,
    Share as Share,
)

DATASETS = ("fashion-mnist-12k", *CIFAR_SETS, "imagenet")
DEFAULT_FOLDER = Path("data")
IMAGE_SHAPES = {  # channels, height, width, as a network sees them
    "fashion-mnist-12k": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "imagenet": (3, 224, 224),
}
NORMALISATIONS = {  # mean and deviation of each channel, with pixels scaled to [0, 1]
    "fashion-mnist-12k": (FASHION_MNIST_MEAN, FASHION_MNIST_DEVIATION),
    **{name: (cifar.mean, cifar.deviation) for name, cifar in CIFAR_SETS.items()},
    "imagenet": (IMAGENET_MEAN, IMAGENET_DEVIATION),
}
NUM_CLASSES = {"fashion-mnist-12k": 10, "cifar10": 10, "cifar100": 100, "imagenet": 1000}


def load_dataset(
    name: str,
    *,
    data: Path | None = None,
    download: bool = False,
    in_turn: Callable[[Callable[[], None]], None] = lambda work: work(),
) -> ImageSource:
    """The image set of that name.

    Args:
        name: one of ``DATASETS``.
        data: the folder or archive that holds it, ``./data`` if not given; the embedded set needs
            none.
        download: fetch CIFAR into that folder if it is not there.
        in_turn: lets several processes do that one after the other.

    Raises:
        ValueError: no dataset has that name.
        CifarNotFound: CIFAR is not there, and was not to be fetched.
        ImagesNotFound: ImageNet is not there.
        CannotDownload: CIFAR could not be fetched.

    Examples:
        >>> from binaryrelax_lab.data import load_dataset
        >>> data = load_dataset("fashion-mnist-12k")  # embedded: no download
        >>> data.num_train, data.num_test, data.num_classes
        (10000, 2000, 10)
    """
    if name not in DATASETS:
        raise ValueError(f"no dataset is called {name!r}; there are: {', '.join(DATASETS)}")
    if name == "fashion-mnist-12k":
        return load_fashion_mnist()
    data = DEFAULT_FOLDER if data is None else data
    if name == "imagenet":
        return load_imagenet(data, download=download)
    if download:
        in_turn(partial(fetch_missing_cifar, name, data))
    return load_cifar(name, data)
