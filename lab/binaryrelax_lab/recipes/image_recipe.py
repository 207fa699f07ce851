"""What a training run on images is, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binaryrelax_lab.recipes.name import RecipeName
from binaryrelax_lab.recipes.recipe import ONLY_IF_SET, Recipe


@dataclass(frozen=True, kw_only=True)
class ImageRecipe(Recipe):
    """Everything that decides a training run on images but its seed. See `Recipe`.

    Args:
        momentum: of SGD, which moves the weights.
        flip: mirror half of the training images.
        crop_padding: shift the training images by up to this many pixels.
        held_out: this many training images are not trained on, and accuracies are measured on
            them instead of the test images: for choosing settings.
    """

    UNIT = "images"

    momentum: float
    flip: bool = False
    crop_padding: int = 0
    held_out: int = field(default=0, metadata={ONLY_IF_SET: True})

    def _start_after(self, values: Mapping[str, Any]) -> RecipeName | None:
        """It holds out the same images: that network must not have seen them either."""
        start, held_out = super()._start_after(values), values.get("held_out", self.held_out)
        if start and held_out and not values.keys().isdisjoint({"starts_from", "held_out"}):
            return start.with_settings({"held_out": str(held_out)})
        return start
