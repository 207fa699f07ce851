import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from binaryrelax_lab.models import NETWORKS, build_network
from binaryrelax_lab.models.resnet import BasicBlock, ZeroPaddedShortcut

OTHER_IMAGES = ("small-conv", "resnet18-imagenet", "mobilenet-v2")
SMALL_IMAGES = [name for name in NETWORKS if name not in OTHER_IMAGES]


def num_parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def convolutions(network: nn.Module) -> list[nn.Conv2d]:
    return [m for m in network.modules() if isinstance(m, nn.Conv2d)]


def test_small_conv_gives_one_score_per_class():
    network = build_network("small-conv", num_channels=1, num_classes=10)
    assert network(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


def test_small_conv_has_the_stated_parameters():
    network = build_network("small-conv", num_channels=1, num_classes=10)
    assert [c.weight.numel() for c in convolutions(network)] == [144, 4608, 18432, 73728]
    assert num_parameters(network) == 98_682


def vgg_parameters(widths: list[int], num_classes: int) -> int:
    """3x3 kernels without bias, two vectors of batch normalization each, one linear layer."""
    kernels = sum(9 * a * b for a, b in zip([3, *widths], widths, strict=False))
    return kernels + 2 * sum(widths) + 512 * num_classes + num_classes


VGG11_WIDTHS = [64, 128, 256, 256, 512, 512, 512, 512]
VGG16_WIDTHS = [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]


@pytest.mark.parametrize(
    ("name", "num_classes", "expected"),
    [
        ("resnet20", 10, 269_722),
        ("resnet32", 10, 464_154),
        ("resnet56", 10, 853_018),
        ("resnet110", 10, 1_727_962),
        ("resnet110", 100, 1_727_962 + 90 * 65),
        ("resnet18", 10, 11_173_962),
        ("resnet34", 10, 21_282_122),
        ("resnet18-imagenet", 1000, 11_689_512),
        ("mobilenet-v2", 1000, 3_504_872),
        ("vgg11", 10, vgg_parameters(VGG11_WIDTHS, 10)),
        ("vgg16", 10, vgg_parameters(VGG16_WIDTHS, 10)),
        ("vgg16", 100, 14_710_464 + 8_448 + 51_300),
    ],
)
def test_parameter_counts_are_the_published_ones(name, num_classes, expected):
    assert num_parameters(build_network(name, 3, num_classes)) == expected


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_ends_in_fc_and_has_convolutions_without_bias(name):
    network = build_network(name, num_channels=3, num_classes=7)
    assert isinstance(network.fc, nn.Linear) and network.fc.out_features == 7
    assert [m for m in network.modules() if isinstance(m, nn.Linear)] == [network.fc]
    assert all(c.bias is None for c in convolutions(network))


@pytest.mark.parametrize("name", SMALL_IMAGES)
def test_networks_train_on_small_images_in_either_memory_format(name):
    torch.manual_seed(0)
    network = build_network(name, num_channels=3, num_classes=10)
    images = torch.randn(2, 3, 32, 32)
    plain = network(images)
    assert plain.shape == (2, 10)
    network = network.to(memory_format=torch.channels_last)
    changed = network(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, changed, rtol=1e-3, atol=1e-3)
    changed.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_imagenet_network_takes_large_images():
    network = build_network("resnet18-imagenet", num_channels=3, num_classes=1000).eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 224, 224)).shape == (1, 1000)
        stem = network.maxpool(network.conv1(torch.zeros(1, 3, 224, 224)))
    assert stem.shape == (1, 64, 56, 56)


@pytest.mark.parametrize(("name", "depth"), [("resnet20", 20), ("resnet56", 56), ("vgg11", 9)])
def test_convolutions_and_the_classifier_make_the_depth(name, depth):
    assert len(convolutions(build_network(name, 3, 10))) + 1 == depth


def test_vgg_pools_five_times():
    network = build_network("vgg16", 3, 10).eval()
    assert network.features(torch.zeros(1, 3, 32, 32)).shape == (1, 512, 1, 1)
    assert sum(isinstance(m, nn.MaxPool2d) for m in network.modules()) == 5


def torchvision_keys() -> list[str]:
    """The names of torchvision's resnet18, by its scheme; 122 tensors."""

    def norm(name: str) -> list[str]:
        kinds = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        return [f"{name}.{kind}" for kind in kinds]

    keys = ["conv1.weight", *norm("bn1")]
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            prefix = f"layer{layer}.{block}"
            for number in (1, 2):
                keys += [f"{prefix}.conv{number}.weight", *norm(f"{prefix}.bn{number}")]
            if layer > 1 and block == 0:
                keys += [f"{prefix}.downsample.0.weight", *norm(f"{prefix}.downsample.1")]
    return [*keys, "fc.weight", "fc.bias"]


def test_imagenet_network_has_the_names_and_shapes_of_torchvision():
    state = build_network("resnet18-imagenet", 3, 1000).state_dict()
    assert len(torchvision_keys()) == 122
    assert list(state) == torchvision_keys()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer2.0.conv1.weight"].shape == (128, 64, 3, 3)
    assert state["layer4.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert state["fc.weight"].shape == (1000, 512)


def test_zero_padded_shortcut_subsamples_and_pads_channels():
    features = torch.randn(2, 16, 8, 8).contiguous(memory_format=torch.channels_last)
    padded = ZeroPaddedShortcut(16, 32)(features)
    assert torch.equal(padded[:, 8:24], features[:, :, ::2, ::2])
    assert not padded[:, :8].any() and not padded[:, 24:].any()
    assert padded.is_contiguous(memory_format=torch.channels_last)


def test_a_block_adds_its_convolutions_to_the_shortcut():
    block = BasicBlock(4, 8, ZeroPaddedShortcut).eval()
    features = torch.randn(2, 4, 6, 6)
    found = functional.conv2d(features, block.conv1.weight, stride=2, padding=1)
    found = functional.conv2d(block.bn1(found).relu(), block.conv2.weight, padding=1)
    expected = (block.bn2(found) + block.downsample(features)).relu()
    torch.testing.assert_close(block(features), expected)


def test_convolutions_start_with_the_variance_of_he():
    torch.manual_seed(0)
    for convolution in convolutions(build_network("resnet18", 3, 10)):
        fan_out = convolution.weight[:, 0].numel()
        assert convolution.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.05)


@pytest.mark.slow
def test_zero_padded_shortcuts_compile_as_one_graph():
    network = build_network("resnet20", 3, 10)
    images = torch.randn(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(images), network(images), rtol=1e-4, atol=1e-4)


def test_unknown_network_lists_those_there_are():
    with pytest.raises(ValueError, match="'vgg'; there are: small-conv, vgg11"):
        build_network("vgg", num_channels=1, num_classes=10)
