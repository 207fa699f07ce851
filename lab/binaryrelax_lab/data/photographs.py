"""Photographs of any size as squares of bytes, by Pillow."""

import math
from pathlib import Path

import numpy as np
from PIL import Image

AREAS = (0.08, 1.0)  # of a training crop, as a share of the photograph
RATIOS = (3 / 4, 4 / 3)  # of its width to its height
Box = tuple[int, int, int, int]  # left, upper, right, lower


def open_photograph(path: Path) -> Image.Image:
    """The decoded file in red, green and blue; a `ValueError` that names it if it is damaged."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except Exception as error:  # Pillow raises all kinds for damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        message = f"{path} cannot be read as an image ({reason}); replace or delete it"
        raise ValueError(message) from error


def random_view(
    image: Image.Image, size: int, *, flip: bool, random: np.random.Generator
) -> np.ndarray:
    """A random part of the photograph, mirrored half of the time if `flip` (size, size, 3)."""
    box = random_box(image.width, image.height, random)
    view = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if flip and random.random() < 0.5:
        view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(view)


def random_box(width: int, height: int, random: np.random.Generator) -> Box:
    """A random part of 8 to 100 % of the area and 3:4 to 4:3 in shape.

    Where ten tries do not fit into the photograph, as in very long ones, its middle is taken.
    """
    for _ in range(10):
        area = random.uniform(*AREAS) * width * height
        ratio = math.exp(random.uniform(math.log(RATIOS[0]), math.log(RATIOS[1])))
        box_width, box_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < box_width <= width and 0 < box_height <= height:
            left = int(random.integers(0, width - box_width, endpoint=True))
            upper = int(random.integers(0, height - box_height, endpoint=True))
            return left, upper, left + box_width, upper + box_height
    box_width = min(width, max(1, round(height * RATIOS[1])))
    box_height = min(height, max(1, round(width / RATIOS[0])))
    return _centre_box(width, height, box_width, box_height)


def centre_view(image: Image.Image, size: int) -> np.ndarray:
    """The middle of the photograph, once its shorter side is 256/224 of `size` (size, size, 3)."""
    shorter = round(size * 256 / 224)
    factor = shorter / min(image.size)
    # Truncated, never rounded up, so that the shorter side comes out as stated.
    width, height = (max(shorter, int(side * factor)) for side in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized.crop(_centre_box(width, height, size, size)))


def _centre_box(width: int, height: int, box_width: int, box_height: int) -> Box:
    left, upper = round((width - box_width) / 2), round((height - box_height) / 2)
    return left, upper, left + box_width, upper + box_height
