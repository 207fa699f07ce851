"""Image sets, each held in memory as tensors."""

from collections.abc import Callable

from binaryrelax.lab.data.fashion_mnist import load_fashion_mnist as load_fashion_mnist
from binaryrelax.lab.data.image_set import ImageSet as ImageSet

DATASETS: dict[str, Callable[[], ImageSet]] = {"fashion-mnist-12k": load_fashion_mnist}


def load_dataset(name: str) -> ImageSet:
    """The image set of that name."""
    if name not in DATASETS:
        raise ValueError(f"no dataset is called {name!r}; there are: {', '.join(sorted(DATASETS))}")
    return DATASETS[name]()
