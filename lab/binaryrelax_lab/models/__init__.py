"""Networks, written as if quantization did not exist; the last layer is always called `fc`."""

from collections.abc import Callable
from functools import partial

from torch import nn

from binaryrelax_lab.models.mobilenet import MobileNetV2 as MobileNetV2
from binaryrelax_lab.models.resnet import (
    IMAGENET_18,
    WIDE_18,
    WIDE_34,
    Architecture,
    ResNet as ResNet,
)
from binaryrelax_lab.models.small_conv import SmallConv as SmallConv
from binaryrelax_lab.models.vgg import VGG as VGG

NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "small-conv": SmallConv,
    "vgg11": partial(VGG, 11),
    "vgg16": partial(VGG, 16),
    "resnet20": partial(ResNet, Architecture.narrow(20)),
    "resnet32": partial(ResNet, Architecture.narrow(32)),
    "resnet56": partial(ResNet, Architecture.narrow(56)),
    "resnet110": partial(ResNet, Architecture.narrow(110)),
    "resnet18": partial(ResNet, WIDE_18),
    "resnet34": partial(ResNet, WIDE_34),
    "resnet18-imagenet": partial(ResNet, IMAGENET_18),
    "mobilenet-v2": MobileNetV2,
}


def build_network(name: str, num_channels: int = 3, num_classes: int = 10) -> nn.Module:
    """A freshly initialised network; its weights come from torch's global generator.

    Args:
        name: one of ``NETWORKS``, such as "small-conv" or "resnet20".
        num_channels: of the images.
        num_classes: the number of outputs.

    Raises:
        ValueError: no network has that name.

    Examples:
        >>> import torch
        >>> from binaryrelax_lab.models import build_network
        >>> network = build_network("resnet20", num_channels=3, num_classes=10)
        >>> sum(parameter.numel() for parameter in network.parameters())
        269722
        >>> network(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if name not in NETWORKS:
        raise ValueError(f"no network is called {name!r}; there are: {', '.join(NETWORKS)}")
    return NETWORKS[name](num_channels, num_classes)
