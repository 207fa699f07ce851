"""MobileNetV2 against Table 2 of its paper, and the names of torchvision."""

import pytest
import torch
from torch import nn

from binaryrelax import Ternary, select_weights
from binaryrelax_lab.models import build_network
from binaryrelax_lab.models.mobilenet import InvertedResidual

SIDES_AND_CHANNELS = (  # behind the stem, the stages and the last convolution
    *((112, 32), (112, 16), (56, 24), (28, 32), (14, 64), (14, 96)),
    *((7, 160), (7, 320), (7, 1280)),
)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return build_network("mobilenet-v2", num_channels=3, num_classes=1000).eval()


def norm_keys(name):
    kinds = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return [f"{name}.{kind}" for kind in kinds]


def torchvision_keys():
    """The names of torchvision's mobilenet_v2, by its scheme; 314 tensors."""
    keys = ["features.0.0.weight", *norm_keys("features.0.1")]
    for block in range(1, 18):
        prefix, depthwise = f"features.{block}.conv", 0 if block == 1 else 1
        for position in range(depthwise + 1):
            keys += [f"{prefix}.{position}.0.weight", *norm_keys(f"{prefix}.{position}.1")]
        keys += [f"{prefix}.{depthwise + 1}.weight", *norm_keys(f"{prefix}.{depthwise + 2}")]
    keys += ["features.18.0.weight", *norm_keys("features.18.1")]
    return [*keys, "classifier.1.weight", "classifier.1.bias"]


def test_stages_have_the_shapes_of_the_paper(network):
    seen, features = [], torch.zeros(1, 3, 224, 224)
    with torch.no_grad():
        for block in network.features:
            features = block(features)
            seen.append((features.shape[2], features.shape[1]))
        assert network(torch.zeros(2, 3, 224, 224)).shape == (2, 1000)
    assert tuple(dict.fromkeys(seen)) == SIDES_AND_CHANNELS


def test_weights_of_torchvision_load_under_their_own_names(network):
    assert len(torchvision_keys()) == 314
    ours = network.state_dict()
    assert list(ours)[:-2] == torchvision_keys()[:-2]
    theirs = {key: ours[key].clone() for key in torchvision_keys()[:-2]}
    theirs["classifier.1.weight"] = torch.full((1000, 1280), 0.5)
    theirs["classifier.1.bias"] = torch.full((1000,), 0.25)
    network.load_state_dict(theirs)
    assert (network.fc.weight == 0.5).all() and (network.fc.bias == 0.25).all()
    assert "classifier.1.weight" in theirs  # the caller's state is left alone


def test_weights_load_under_our_names_too(network):
    network.load_state_dict(build_network("mobilenet-v2", 3, 1000).state_dict())
    nn.Sequential(network).load_state_dict(nn.Sequential(network).state_dict())


def test_a_wrong_name_is_still_refused(network):
    state = network.state_dict() | {"classifier.2.weight": torch.zeros(1)}
    with pytest.raises(RuntimeError, match=r"classifier\.2\.weight"):
        network.load_state_dict(state)


def test_all_convolutions_are_quantized_and_the_classifier_is_not(network):
    weights = select_weights(network, Ternary(), keep_float=("fc",))
    assert len(list(weights)) == 52


@pytest.mark.parametrize(
    ("stride", "outputs", "adds"), [(1, 8, True), (2, 8, False), (1, 9, False)]
)
def test_a_block_adds_its_input_where_the_shapes_agree(stride, outputs, adds):
    block = InvertedResidual(8, outputs, expansion=6, stride=stride).eval()
    features = torch.randn(2, 8, 6, 6)
    expected = block.conv(features) + (features if adds else 0)
    torch.testing.assert_close(block(features), expected)


def test_network_trains_in_either_memory_format():
    torch.manual_seed(0)
    network = build_network("mobilenet-v2", num_channels=3, num_classes=10)
    network.dropout.p = 0.0
    images = torch.randn(2, 3, 96, 96)
    plain = network(images)
    network = network.to(memory_format=torch.channels_last)
    changed = network(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, changed, rtol=1e-3, atol=1e-3)
    changed.sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
