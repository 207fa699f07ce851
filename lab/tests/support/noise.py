"""Random images in the sizes of the real sets."""

import torch

from binaryrelax_lab.data import ImageSet

SIZES = {  # pixels each way (ImageNet: fewer than it has), channels, classes
    "fashion-mnist-12k": (28, 1, 10),
    "cifar10": (32, 3, 10),
    "cifar100": (32, 3, 100),
    "imagenet": (64, 3, 1000),
}


def noise_for(dataset: str, num_images: int = 2) -> ImageSet:
    """A few random images, both to train on and to test with."""
    size, channels, num_classes = SIZES[dataset]
    generator = torch.Generator().manual_seed(0)
    shape = (num_images, size, size, channels)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, num_classes, (num_images,), generator=generator)
    return ImageSet(
        train_images=images,
        train_labels=labels,
        test_images=images,
        test_labels=labels,
        num_classes=num_classes,
        mean=(0.5,) * channels,
        deviation=(0.25,) * channels,
    )
