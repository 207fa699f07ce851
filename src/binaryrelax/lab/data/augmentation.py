"""Random changes to training images, for a whole batch at once."""

import torch
from torch import Generator, Tensor
from torch.nn import functional


def flipped(images: Tensor, generator: Generator) -> Tensor:
    """The images, each mirrored left to right with probability one half."""
    shape = (len(images), 1, 1, 1)
    mirrored = torch.rand(shape, generator=generator, device=images.device) < 0.5
    return torch.where(mirrored, images.flip(3), images)


def shifted(images: Tensor, padding: int, background: float, generator: Generator) -> Tensor:
    """The images, each moved by up to `padding` pixels in both directions.

    The same as padding with `background` and cropping at random.
    """
    count, _, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4, value=background)
    corners = torch.randint(
        0, 2 * padding + 1, (2, count, 1), generator=generator, device=images.device
    )
    rows = corners[0] + torch.arange(height, device=images.device)
    columns = corners[1] + torch.arange(width, device=images.device)
    each = torch.arange(count, device=images.device)
    cropped = padded[each[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)  # indexing has moved the channels to the end
