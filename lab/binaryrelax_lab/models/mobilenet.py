"""MobileNetV2 for images of 224 x 224 pixels (Sandler et al., 2018): inverted residual blocks.

The parameters are called as in torchvision, except for the last layer: it is `fc` here, as in all
of our networks, and `classifier.1` there. Its weights load under either name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from binaryrelax_lab.models.initialisation import initialise_convolutions

STEM, HEAD = 32, 1280  # channels of the first and the last convolution
DROPOUT = 0.2
LAST_LAYER_OF_TORCHVISION = "classifier.1."


@dataclass(frozen=True)
class Stage:
    """Blocks of as many outputs; the first of them takes the stride.

    Args:
        expansion: how many times wider a block is inside than at its input.
    """

    expansion: int
    outputs: int
    num_blocks: int
    stride: int


STAGES = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 32, 3, 2),
    Stage(6, 64, 4, 2),
    Stage(6, 96, 3, 1),
    Stage(6, 160, 3, 2),
    Stage(6, 320, 1, 1),
)


class ConvNormReLU(nn.Sequential):
    """A convolution that keeps the size at stride 1, batch normalization and ReLU6."""

    def __init__(
        self, num_inputs: int, num_outputs: int, size: int = 1, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(
            nn.Conv2d(num_inputs, num_outputs, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(num_outputs),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Widen by a 1x1 convolution, filter each channel by a 3x3 one, narrow by a 1x1 one."""

    def __init__(self, num_inputs: int, num_outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        self.adds_its_input = stride == 1 and num_inputs == num_outputs
        width = num_inputs * expansion
        widening = [ConvNormReLU(num_inputs, width)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *widening,
            ConvNormReLU(width, width, 3, stride, groups=width),
            nn.Conv2d(width, num_outputs, 1, bias=False),
            nn.BatchNorm2d(num_outputs),
        )

    def forward(self, features: Tensor) -> Tensor:
        """What the convolutions have found, added to the features where the shapes agree."""
        found = self.conv(features)
        return features + found if self.adds_its_input else found


class MobileNetV2(nn.Module):
    """A stem, inverted residual blocks, a 1x1 convolution, pooling, one linear classifier."""

    def __init__(self, num_channels: int, num_classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvNormReLU(num_channels, STEM, 3, stride=2),
            *_blocks(),
            ConvNormReLU(STAGES[-1].outputs, HEAD),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(DROPOUT)
        self.fc = nn.Linear(HEAD, num_classes)
        initialise_convolutions(self)
        self.register_load_state_dict_pre_hook(_accept_torchvision)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of the classes, one row per image."""
        found = self.flatten(self.avgpool(self.features(images)))
        return self.fc(self.dropout(found))


def _blocks() -> Iterator[InvertedResidual]:
    num_inputs = STEM
    for stage in STAGES:
        for number in range(stage.num_blocks):
            stride = stage.stride if number == 0 else 1
            yield InvertedResidual(num_inputs, stage.outputs, stage.expansion, stride)
            num_inputs = stage.outputs


def _accept_torchvision(
    _module: nn.Module, state: dict[str, Any], prefix: str, *_others: object
) -> None:
    """Renames torchvision's last layer to ours in a state that is being loaded."""
    theirs = prefix + LAST_LAYER_OF_TORCHVISION
    for name in [name for name in state if name.startswith(theirs)]:
        state[f"{prefix}fc.{name.removeprefix(theirs)}"] = state.pop(name)
