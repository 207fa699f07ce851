"""What a random network may do in one step: modules over maps (N, C, H, W) and vectors (N, F)."""

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.packed.cases import randomize_norm

Step = nn.Module


class Does(nn.Module):
    """A step that is code and not a module of torch."""

    def __init__(self, code: Callable[..., Tensor], **constants: Tensor):
        super().__init__()
        self.code = code
        for name, constant in constants.items():
            self.register_buffer(name, constant)
        self.names = tuple(constants)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.code(*inputs, *(getattr(self, name) for name in self.names))


class Gate(nn.Module):
    """Squeeze and excitation, with convolutions of one pixel or with linear layers."""

    def __init__(self, random: Random, channels: int):
        super().__init__()
        inside = random.randint(1, 12)
        self.as_convolutions = random.random() < 0.5
        if self.as_convolutions:
            self.squeeze, self.excite = (
                nn.Conv2d(channels, inside, 1),
                nn.Conv2d(inside, channels, 1),
            )
        else:
            self.squeeze, self.excite = nn.Linear(channels, inside), nn.Linear(inside, channels)
        self.between, self.last = activation(random), random.choice([nn.Sigmoid, nn.Hardsigmoid])()

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((2, 3), keepdim=self.as_convolutions)
        gate = self.last(self.excite(self.between(self.squeeze(mean))))
        return x * (gate if self.as_convolutions else gate[:, :, None, None])


def activation(random: Random) -> nn.Module:
    """Any activation, most often ReLU."""
    return random.choice(
        [
            nn.ReLU, nn.ReLU, nn.ReLU, nn.ReLU6, nn.ReLU6, nn.SiLU, nn.GELU, nn.Hardswish,
            nn.Sigmoid, nn.Tanh, nn.Hardsigmoid, lambda: nn.GELU(approximate="tanh"),
            lambda: nn.LeakyReLU(0.2),
            lambda: nn.Hardtanh(-0.5, 1.5), lambda: Does(lambda x: x.clamp(min=-0.25)),
            lambda: Does(lambda x: torch.clamp_max(x, 0.75)), lambda: Does(F.relu),
            lambda: nn.ReLU(inplace=True),
        ]
    )()  # fmt: skip


def norm(random: Random, channels: int, maps: bool) -> nn.Module:
    """Batch normalization with the statistics of training."""
    made = (nn.BatchNorm2d if maps else nn.BatchNorm1d)(channels, affine=random.random() < 0.8)
    randomize_norm(made)
    return made


def width(random: Random) -> int:
    """Channels or features: few, many, and about the sizes that kernels take at once."""
    return random.choice(
        [
            random.randint(1, 9),
            random.randint(1, 40),
            random.choice([16, 32, 64]),
            random.randint(60, 70),
        ]
    )


def convolution(random: Random, shape: tuple[int, ...]) -> nn.Conv2d:
    """One of any geometry that fits the map."""
    _, channels, height, width_ = shape
    kernel = (random.choice([1, 1, 2, 3, 3, 3, 5]), random.choice([1, 1, 2, 3, 3, 3, 7]))
    if random.random() < 0.6:
        kernel = (kernel[0], kernel[0])
    dilation = random.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 3)])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    least = [max(0, -(-(r - n) // 2)) for r, n in zip(reach, (height, width_), strict=True)]
    padding = tuple(random.randint(low, max(low, k)) for low, k in zip(least, kernel, strict=True))
    stride = random.choice([(1, 1), (1, 1), (1, 1), (2, 2), (2, 2), (1, 2), (3, 1), (3, 3)])
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    if random.random() < 0.15:
        options |= {"stride": 1, "padding": "same"}
    groups, outputs = 1, width(random)
    choice = random.random()
    if choice < 0.25:  # depthwise, with one filter for each channel or more
        groups, outputs = channels, channels * random.choice([1, 1, 1, 2, 3])
    elif choice < 0.4:
        groups = random.choice([n for n in range(1, channels + 1) if channels % n == 0])
        outputs = groups * random.randint(1, max(1, 48 // groups))
    return nn.Conv2d(
        channels, outputs, kernel, **options, groups=groups, bias=random.random() < 0.5
    )


def pooling(random: Random, shape: tuple[int, ...]) -> nn.Module:
    """Maximum or average over windows that fit the map, or over equal parts of it."""
    choice = random.random()
    if choice < 0.3:
        size = random.choice([1, (2, 3), (5, 1), 7])
        return random.choice([nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d])(size)
    kernel = [random.randint(1, min(4, n)) for n in shape[2:]]
    padding = tuple(random.randint(0, k // 2) for k in kernel)
    stride, ceil = random.choice([None, 1, 2, (2, 1), 3]), random.random() < 0.4
    if choice < 0.65:
        counted = random.random() < 0.5
        return nn.AvgPool2d(tuple(kernel), stride, padding, ceil, counted)
    dilation = random.choice([1, 1, 1, (1, 2)])
    fits = dilation == 1 or 2 * (kernel[1] - 1) < shape[3] + 2 * padding[1]
    return nn.MaxPool2d(tuple(kernel), stride, padding, dilation if fits else 1, ceil_mode=ceil)


def resampling(random: Random) -> Step:
    """Larger or smaller images, by a factor or to a size."""
    kind = random.choice(["nearest", "bilinear"])
    options = {"align_corners": random.random() < 0.5} if kind == "bilinear" else {}
    if random.random() < 0.5:
        size = (random.randint(1, 14), random.randint(1, 14))
        return nn.Upsample(size=size, mode=kind, **options)
    factor = random.choice([2, 2.0, (1.5, 2), (2, 3), (0.75, 1)])
    return nn.Upsample(scale_factor=factor, mode=kind, **options)


def rearrangement(random: Random, shape: tuple[int, ...]) -> Step:
    """Parts of a tensor, or more around it."""
    channels, maps = shape[1], len(shape) == 4
    first, step = random.randrange(channels), random.randint(1, 3)
    half, value = random.randint(0, channels // 2), random.choice([0.0, 0.0, -1.0, 0.5])
    parts = [half, channels - half] if half else channels
    sides = [random.randint(0, 3) for _ in range(6 if random.random() < 0.3 else 4)]
    ways: list[Callable[..., Tensor]] = [
        lambda x: x[:, first:],
        lambda x: x[:, ::step],
        lambda x: torch.cat([x.chunk(2, 1)[-1], x.chunk(2, 1)[0]], 1),
        lambda x: torch.cat([x.split(parts, 1)[-1], x.split(parts, 1)[0]], 1),
        lambda x: x.narrow(1, first, channels - first),
    ]
    if maps:
        ways += [
            lambda x: x[..., ::step, 1:] if shape[3] > 1 else x[:, :, ::step],
            lambda x: x[:, :, :4, :5],
            lambda x: F.pad(x, sides, value=value),
            lambda x: F.pad(x, sides, value=value),
        ]
    else:
        ways.append(lambda x: F.pad(x, sides[:2], value=value))
    return Does(random.choice(ways))


def arithmetic(random: Random, shape: tuple[int, ...]) -> Step:
    """With constants, for all or for each channel."""
    per_channel = (1, shape[1], *[1] * (len(shape) - 2))
    a, b = torch.randn(per_channel), torch.randn(per_channel)
    number = random.choice([0.5, -2.0, 3])
    return random.choice(
        [
            Does(lambda x: x * number), Does(lambda x: number - x), Does(lambda x: -x / 3 + 1),
            Does(lambda x, a, b: a * x + b, a=a, b=b), Does(lambda x, a: x - a, a=a),
            Does(lambda x: torch.tanh(x) ** 2), Does(lambda x: x.sigmoid().square()),
        ]
    )  # fmt: skip


def summary(random: Random) -> Step:
    """A number for each channel of a map."""
    return random.choice(
        [
            Does(lambda x: x.mean((2, 3))), Does(lambda x: x.mean((-1, -2), keepdim=True)),
            Does(lambda x: x.amax((2, 3))), Does(lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1)),
            nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten()),
        ]
    )  # fmt: skip


def likelihood(random: Random) -> Step:
    """Softmax or its logarithm."""
    return random.choice([nn.Softmax(1), nn.LogSoftmax(1), Does(lambda x: x.softmax(dim=1))])


def flattening(random: Random) -> Step:
    """A map as a vector."""
    return random.choice(
        [nn.Flatten(), Does(lambda x: x.flatten(1)), Does(lambda x: x.reshape(x.shape[0], -1)),
         Does(lambda x: x.contiguous().view(x.size(0), -1))]
    )  # fmt: skip
