"""What the engine trains on."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImageSet:
    """Normalised images (count, channels, height, width) and their labels (count,), in memory.

    Args:
        background: the value of a black pixel after normalisation, which shifted images are
            filled up with.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    num_classes: int
    background: float = 0.0

    @property
    def num_channels(self) -> int:
        """1 for grey images, 3 for colour."""
        return self.train_images.shape[1]

    def to(self, device: torch.device) -> "ImageSet":
        """The same set with all of its tensors on `device`."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})
