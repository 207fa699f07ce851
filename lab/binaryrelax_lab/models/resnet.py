"""Residual networks of basic blocks (He et al., 2016): narrow and wide for CIFAR, and ImageNet's.

The parameters are called as in torchvision, so that its ImageNet weights can be loaded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch.nn import functional

from binaryrelax_lab.models.initialisation import initialise_convolutions


class ZeroPaddedShortcut(nn.Module):
    """Every second pixel, and channels of zeros on both sides: option A, without parameters."""

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        missing = num_outputs - num_inputs
        self.padding = (0, 0, 0, 0, missing // 2, missing - missing // 2)

    def forward(self, features: Tensor) -> Tensor:
        """Features of half the height and width, with more channels."""
        return functional.pad(features[:, :, ::2, ::2], self.padding)


def projection_shortcut(num_inputs: int, num_outputs: int) -> nn.Sequential:
    """A 1x1 convolution of stride 2 with batch normalization: option B."""
    return nn.Sequential(
        nn.Conv2d(num_inputs, num_outputs, 1, stride=2, bias=False), nn.BatchNorm2d(num_outputs)
    )


Shortcut = Callable[[int, int], nn.Module]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut around them; where it widens, it also halves the size."""

    def __init__(self, num_inputs: int, num_outputs: int, shortcut: Shortcut) -> None:
        super().__init__()
        widens = num_inputs != num_outputs
        stride = 2 if widens else 1
        self.conv1 = nn.Conv2d(num_inputs, num_outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(num_outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(num_outputs, num_outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(num_outputs)
        self.downsample = shortcut(num_inputs, num_outputs) if widens else nn.Identity()

    def forward(self, features: Tensor) -> Tensor:
        """The features, with what the convolutions have found added."""
        found = self.relu(self.bn1(self.conv1(features)))
        found = self.bn2(self.conv2(found))
        return self.relu(found + self.downsample(features))


@dataclass(frozen=True)
class Architecture:
    """The numbers of a residual network.

    Args:
        widths: the channels of each stage; the stem has as many as the first.
        num_blocks: the blocks of each stage.
        shortcut: what leads around a block that widens.
        for_large_images: with ImageNet's stem, 7x7 of stride 2 and a pooling; else a plain 3x3.
    """

    widths: tuple[int, ...]
    num_blocks: tuple[int, ...]
    shortcut: Shortcut
    for_large_images: bool = False

    @classmethod
    def narrow(cls, depth: int) -> "Architecture":
        """He et al.'s networks for CIFAR; their depths are 2 more than a multiple of 6."""
        return cls((16, 32, 64), ((depth - 2) // 6,) * 3, ZeroPaddedShortcut)


WIDE_18 = Architecture((64, 128, 256, 512), (2, 2, 2, 2), projection_shortcut)
WIDE_34 = replace(WIDE_18, num_blocks=(3, 4, 6, 3))
IMAGENET_18 = replace(WIDE_18, for_large_images=True)


class ResNet(nn.Sequential):
    """A stem, stages of basic blocks, average pooling, one linear classifier."""

    def __init__(self, architecture: Architecture, num_channels: int, num_classes: int) -> None:
        super().__init__()
        width = architecture.widths[0]
        self.conv1 = _stem(num_channels, width, large=architecture.for_large_images)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        if architecture.for_large_images:
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        for number, stage in enumerate(_stages(architecture), start=1):
            self.add_module(f"layer{number}", stage)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(architecture.widths[-1], num_classes)
        initialise_convolutions(self)


def _stem(num_channels: int, width: int, *, large: bool) -> nn.Conv2d:
    if large:
        return nn.Conv2d(num_channels, width, 7, stride=2, padding=3, bias=False)
    return nn.Conv2d(num_channels, width, 3, padding=1, bias=False)


def _stages(architecture: Architecture) -> Iterator[nn.Sequential]:
    """The blocks of each width; the first of them takes the width of the stage before."""
    num_inputs = architecture.widths[0]
    for width, num_blocks in zip(architecture.widths, architecture.num_blocks, strict=True):
        inputs = [num_inputs] + [width] * (num_blocks - 1)
        yield nn.Sequential(*(BasicBlock(n, width, architecture.shortcut) for n in inputs))
        num_inputs = width
