"""The first weights of a deep network."""

from torch import nn


def initialise_convolutions(network: nn.Module) -> None:
    """Normal weights whose variance keeps the size of gradients through ReLUs (He et al., 2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
