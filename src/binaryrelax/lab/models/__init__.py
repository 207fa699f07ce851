"""Networks, written as if quantization did not exist."""

from collections.abc import Callable

from torch import nn

from binaryrelax.lab.models.small_conv import SmallConv as SmallConv

NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {"small-conv": SmallConv}


def build_network(name: str, num_channels: int, num_classes: int) -> nn.Module:
    """A freshly initialised network; its weights come from torch's global generator."""
    if name not in NETWORKS:
        raise ValueError(f"no network is called {name!r}; there are: {', '.join(sorted(NETWORKS))}")
    return NETWORKS[name](num_channels, num_classes)
