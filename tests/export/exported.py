"""Packed networks to export, and real images to run them on."""

from functools import cache

import torch
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    Levels,
    PerChannel,
    PerGroup,
    PowerOfTwo,
    Quantizer,
    Ternary,
    Uniform,
    pack,
)
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.models import build_network
from tests.packed.cases import put_in_q, randomize_norm, seeded

WEIGHTS = (  # every layout that a graph expands; rows of 45 weights, of which no byte is a part
    Binary(),
    Binary(granularity=PerChannel()),
    Binary(granularity=PerGroup(9)),
    Ternary(),
    Ternary(granularity=PerGroup(9)),
    Levels((1, 3)),
    Uniform(bits=3, granularity=PerChannel()),
    PowerOfTwo(bits=4),
    Uniform(bits=5, granularity=PerGroup(9)),
    Uniform(bits=8),
)


@cache
def images(count: int = 6, channels: int = 3) -> Tensor:
    """Test images of the embedded set."""
    pixels, _ = load_fashion_mnist().look_up_test(torch.arange(count))
    return pixels.expand(-1, channels, -1, -1).contiguous()


def packed_network(name: str, quantizer, *, channels: int = 3, fold_batchnorm=True) -> nn.Module:
    """A network of the lab with non-trivial normalizations, packed; ``fc`` stays float."""

    def make() -> nn.Module:
        network = build_network(name, channels, 10)
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                randomize_norm(module)
        return network

    model = seeded(make)
    weights = put_in_q(model, quantizer, keep_float=("fc",))
    return pack(model, weights, fold_batchnorm=fold_batchnorm)


def packed(make, quantizer) -> nn.Module:
    """What ``make`` makes, with all weights packed."""
    model = seeded(make)
    return pack(model, put_in_q(model, quantizer))


def packed_with(layers: dict[nn.Module, Quantizer], model: nn.Module) -> nn.Module:
    """The model with these layers of it packed, each by its own quantizer."""
    with torch.no_grad():
        for layer, quantizer in layers.items():
            layer.weight.copy_(quantizer.project(layer.weight))
    return pack(model.eval(), {layer.weight: q for layer, q in layers.items()})


class Sum(nn.ModuleList):
    """The sum of what its layers make of one input."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([layer(x) for layer in self]).sum(0)


def every_layout() -> nn.Module:
    """Convolutions that hold all of ``WEIGHTS``."""
    model = seeded(lambda: Sum(nn.Conv2d(5, 6, 3) for _ in WEIGHTS))
    return packed_with(dict(zip(model, WEIGHTS, strict=True)), model)


def groups_of(*sizes: int) -> nn.Module:
    """Ternary Linear layers with 256 inputs and a scale for each group of so many weights."""
    model = seeded(lambda: Sum(nn.Linear(256, 7) for _ in sizes))
    quantizers = [Ternary(granularity=PerGroup(size)) for size in sizes]
    return packed_with(dict(zip(model, quantizers, strict=True)), model)


class Slices(nn.ModuleList):
    """What its layers make of the first columns of one input, side by side."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([layer(x[..., : layer.in_features]) for layer in self], -1)


def widths(*sizes: int) -> nn.Module:
    """Linear layers with so many inputs, in turn ternary with a bias and binary without."""
    model = seeded(lambda: Slices(nn.Linear(k, 7 + 9 * (k % 2), bias=k % 3 != 0) for k in sizes))
    quantizers = [Binary(), Ternary(), Ternary(granularity=PerChannel())]
    return packed_with({layer: quantizers[layer.in_features % 3] for layer in model}, model)


def group_sizes(*sizes: int) -> nn.Module:
    """Ternary Linear layers with three groups of so many weights in a row, each with a scale."""
    model = seeded(lambda: Slices(nn.Linear(3 * size, 16) for size in sizes))
    quantizers = [Ternary(granularity=PerGroup(size)) for size in sizes]
    return packed_with(dict(zip(model, quantizers, strict=True)), model)


class DiffersWhenExported(nn.Module):
    """Its graph gives twice what the model gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(28, 12)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return 2 * y if torch.compiler.is_exporting() else y


class Chaotic(nn.Module):
    """Any rounding of activations turns its outputs into others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 40), nn.Linear(40, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.sin(1000 * self.first(x)))


def half_precision() -> nn.Module:
    """Weights of 16 bits, of both kinds; as packed layers they take inputs of any precision."""
    return Sum([nn.Linear(45, 6).to(torch.float16), nn.Linear(45, 6).to(torch.bfloat16)])


def features(count: int) -> Tensor:
    """Rows of pixels of five images."""
    return images(5)[:, 0].flatten(1)[:, 300 : 300 + count].contiguous()


def awkward_convolutions() -> nn.Module:
    """Groups, strides, dilation, every way of padding, a transposed one; for three channels."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding="same", padding_mode="reflect"),
        nn.ReLU(),
        nn.Conv2d(6, 9, (3, 2), stride=(2, 1), padding=(1, 2), groups=3, bias=False),
        nn.ReLU(),
        nn.Conv2d(9, 9, 3, padding=2, dilation=2, groups=9, padding_mode="circular"),
        nn.Conv2d(9, 5, 2, padding="same", dilation=(1, 3)),
        nn.Conv2d(5, 4, 3, padding="valid", padding_mode="replicate", bias=False),
        nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 1), padding=1, output_padding=(1, 0), groups=2),
    )


class Perceptron(nn.Module):
    """Linear layers with and without bias, of awkward sizes; inputs of two or more dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(28, 300)
        self.second = nn.Linear(300, 128, bias=False)
        self.last = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).relu()).relu())


class Tied(nn.Module):
    """Two layers with one weight, and one layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 64, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.first(x).relu()).relu())


class Mirrored(nn.Module):
    """Uses the weight of its layer a second time, transposed."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 16)

    def forward(self, x):
        return nn.functional.linear(torch.tanh(self.layer(x)), self.layer.weight.t())


class TwoInputs(nn.Module):
    """Two inputs, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 40), nn.Conv1d(2, 4, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.left(x), self.right(y) * 2


def largest_error(found: Tensor, expected: Tensor) -> float:
    """The largest difference, as a share of the largest output."""
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max())
