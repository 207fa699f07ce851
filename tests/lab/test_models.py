import pytest
import torch
from torch import nn

from binaryrelax.lab.models import build_network


def test_small_conv_gives_one_score_per_class():
    network = build_network("small-conv", num_channels=1, num_classes=10)
    assert network(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


def test_small_conv_has_the_stated_parameters():
    network = build_network("small-conv", num_channels=1, num_classes=10)
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert [c.weight.numel() for c in convolutions] == [144, 4608, 18432, 73728]
    assert all(c.bias is None for c in convolutions)
    assert isinstance(network.fc, nn.Linear)
    assert sum(p.numel() for p in network.parameters()) == 98_682


def test_unknown_network_lists_those_there_are():
    with pytest.raises(ValueError, match="'vgg'; there are: small-conv"):
        build_network("vgg", num_channels=1, num_classes=10)
