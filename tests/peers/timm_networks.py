"""Networks of timm with ten classes and random weights, on images as small as they take."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from tests.peers.network import Inputs, Network

_SIZES: dict[str, tuple[str, int, dict[str, Any]]] = {  # name -> family, pixels, options
    "resnet18": ("resnet", 64, {}),
    "resnetv2_50": ("resnetv2", 64, {}),
    "mobilenetv3_small_100": ("mobilenetv3", 64, {}),
    "efficientnet_b0": ("efficientnet", 64, {}),
    "tf_efficientnet_b0": ("efficientnet", 65, {}),  # its padding depends on the image's size
    "ghostnet_100": ("ghostnet", 64, {}),
    "convnext_atto": ("convnext", 64, {}),
    "vit_tiny_patch16_224": ("vit", 64, {"img_size": 64}),
    "swin_tiny_patch4_window7_224": ("swin", 224, {}),
    "mixer_s32_224": ("mixer", 128, {"img_size": 128}),
    "densenet121": ("densenet", 64, {}),
    "regnety_002": ("regnet", 64, {}),
    "dpn68": ("dpn", 64, {}),
    "nfnet_l0": ("nfnet", 64, {}),
    "hrnet_w18_small": ("hrnet", 64, {}),
    "vgg11_bn": ("vgg", 64, {}),
}


def networks() -> list[Network]:
    """One of each of fifteen families; of efficientnet also one with TensorFlow's padding."""
    return [
        Network(name, family, "timm", partial(_made, name, options), partial(_images, pixels))
        for name, (family, pixels, options) in _SIZES.items()
    ]


def _made(name: str, options: dict[str, Any]) -> torch.nn.Module:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10, **options)


def _images(pixels: int) -> Inputs:
    generator = torch.Generator().manual_seed(0)
    return {"x": torch.randn(2, 3, pixels, pixels, generator=generator)}
