"""Networks with every operation of the native runtime, and what it should make of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryrelax import Quantizer, export_native, pack
from binaryrelax.export.interpreter import apply
from binaryrelax.export.program import LayerWeight, Operation, Program
from tests.packed.cases import put_in_q, randomize_norm, seeded

native = pytest.importorskip("binaryrelax_native", reason="there is no runtime")

Calls = Callable[[Tensor], Tensor]


class Between(nn.Module):
    """Calls between two convolutions."""

    def __init__(self, calls: Calls, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(channels, 6, 3, padding=1)
        self.calls = calls

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.calls(self.first(x)))


class BetweenVectors(nn.Module):
    """Calls between two matrices."""

    def __init__(self, calls: Calls, features: int = 12) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(20, 12), nn.Linear(features, 7)
        self.calls = calls

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.calls(self.first(x)))


OF_NUMBERS: dict[str, Calls] = {  # for maps and vectors
    "nothing": lambda x: x,
    "relu": F.relu,
    "relu6": lambda x: F.relu6(4 * x),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hard swish": lambda x: F.hardswish(3 * x),
    "hard sigmoid": lambda x: F.hardsigmoid(3 * x),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "leaky relu": lambda x: F.leaky_relu(x, 0.2),
    "clamp": lambda x: x.clamp(-0.2, 0.3),
    "clamp from below": lambda x: x.clamp(min=0.1),
    "clamp from above": lambda x: torch.clamp(x, max=0.1),
    "hard tanh": lambda x: F.hardtanh(x, -0.1, 0.4),
    "addition": lambda x: x + F.relu(x),
    "addition to itself": lambda x: x + x,
    "subtraction": lambda x: F.relu(x) - torch.sigmoid(x),
    "product": lambda x: x * torch.sigmoid(x),
    "square": lambda x: x**2,
    "numbers": lambda x: 1 - (2 * x + 0.5) / 3,
    "negative": lambda x: -x,
    "softmax": lambda x: F.softmax(x, 1),
    "log softmax": lambda x: F.log_softmax(x, dim=1),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
}
OF_MAPS: dict[str, tuple[int, Calls]] = {  # channels after them, and they
    "max pool": (8, lambda x: F.max_pool2d(x, 2)),
    "max pool of padded": (8, lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max pool to above": (8, lambda x: F.max_pool2d(x, (2, 3), (2, 2), ceil_mode=True)),
    "max pool dilated": (8, lambda x: F.max_pool2d(x, 2, 1, 1, dilation=(2, 1))),
    "max pool of positive": (8, lambda x: F.max_pool2d(F.relu(x), 3, 1, 1)),
    "average pool": (8, lambda x: F.avg_pool2d(x, 2)),
    "average pool of padded": (8, lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "average pool without padding": (
        8, lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
    ),
    "average pool to above": (8, lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True)),
    "adaptive average": (8, lambda x: F.adaptive_avg_pool2d(x, (3, 4))),
    "adaptive maximum": (8, lambda x: F.adaptive_max_pool2d(x, (4, 3))),
    "global average": (8, lambda x: F.adaptive_avg_pool2d(F.relu(x), 1)),
    "global maximum": (8, lambda x: x.amax((2, 3), keepdim=True)),
    "pad with zeros": (8, lambda x: F.pad(x, (1, 0, 2, 1))),
    "pad with ones": (8, lambda x: F.pad(x, (0, 2, 1, 0), value=1.0)),
    "pad channels": (13, lambda x: F.pad(F.relu(x), (0, 0, 0, 0, 2, 3))),
    "concatenation": (24, lambda x: torch.cat([x, F.relu(x), x.clamp(max=0)], 1)),
    "nearest, twice": (8, lambda x: F.interpolate(x, scale_factor=2)),
    "nearest, to a size": (8, lambda x: F.interpolate(x, size=(7, 15))),
    "bilinear, twice": (
        8, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    ),
    "bilinear, aligned": (
        8, lambda x: F.interpolate(x, size=(13, 9), mode="bilinear", align_corners=True)
    ),
    "nearest, by a fraction": (8, lambda x: F.interpolate(x, scale_factor=(1.5, 0.5))),
    "gate": (8, lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True))),
    "channels of it": (4, lambda x: x[:, 2:6]),
    "every second pixel": (8, lambda x: x[:, :, ::2, 1::2]),
    "shortcut without weights": (
        12, lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))
    ),
    "chunks": (4, lambda x: x.chunk(2, 1)[0] * torch.sigmoid(x.chunk(2, 1)[1])),
    "splits": (8, lambda x: torch.cat(x.split([3, 5], 1)[::-1], 1)),
    "narrow": (3, lambda x: x.narrow(1, 4, 3)),
}  # fmt: skip


def maps(count: int = 4, channels: int = 3, height: int = 9, width: int = 8) -> Tensor:
    """Random images, of both signs."""
    return torch.randn(
        count, channels, height, width, generator=torch.Generator().manual_seed(count)
    )


def vectors(count: int = 4, features: int = 20) -> Tensor:
    """Random vectors."""
    return torch.randn(count, features, generator=torch.Generator().manual_seed(count))


def float_and_packed(
    make: Callable[[], nn.Module], quantizer: Quantizer, **options
) -> tuple[nn.Module, nn.Module]:
    """The same network twice: as torch runs it, with weights in Q, and packed."""
    keep_float, models = options.pop("keep_float", ()), []
    for _ in range(2):
        model = seeded(make)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            for module in model.modules():
                if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                    randomize_norm(module)
        models.append((model, put_in_q(model, quantizer, keep_float)))
    (plain, _), (model, weights) = models
    return plain, pack(model, weights, **options)


def loaded(model: nn.Module, example, folder: Path, *, threads: int = 1, **options):
    """The network that the runtime makes of the model."""
    export_native(model, example, folder / "net.brx", **options)
    return native.load(folder / "net.brx", threads=threads)


def outputs(network, *inputs: Tensor) -> list[Tensor]:
    """What a network of the runtime, or a model, gives; always a list."""
    if isinstance(network, nn.Module):
        with torch.no_grad():
            found = network(*inputs)
    else:
        found = network(*(x.numpy() for x in inputs))
    parts = found if isinstance(found, (tuple, list)) else [found]
    return [torch.as_tensor(part) for part in parts]


def largest_error(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference, as a share of the largest number of the same output."""
    assert [x.shape for x in found] == [x.shape for x in expected]
    sizes = [float(x.abs().max()) for x in expected]
    errors = [float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)]
    return max(e / max(size, 1e-30) for e, size in zip(errors, sizes, strict=True))


# A slow reference of mode "fast"

_POSITIVE = ("relu", "relu6", "sigmoid", "hard_sigmoid")
_KEEP_SIGN = (
    "add", "multiply", "pool", "adaptive_pool", "slice", "flatten", "concat", "upsample",
)  # fmt: skip


class RoundedInterpreter:
    """Runs a program as mode "fast" does.

    What a layer of 1-bit or ternary weights multiplies are bytes: 255 steps over the range of the
    value where it was calibrated; else from zero on to the largest number of an image where none
    can be negative, or 127 to each side.

    Args:
        program: if it was calibrated, each of its layers reads what a layer has written.
        ranges: of all its values, least and largest, or none.
    """

    def __init__(self, program: Program, ranges: list[list[float] | None] | None = None) -> None:
        self.program = program
        self.ranges = ranges

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        values, positive = list(inputs), [False] * len(inputs)
        for operation in self.program.operations:
            taken = [values[n] for n in operation.inputs]
            if _multiplies_bytes(operation):
                taken = [self._rounded(operation.inputs[0], taken[0], positive)]
            parameters = {
                role: (p.unpack() if isinstance(p, LayerWeight) else p).float()
                for role, p in operation.parameters.items()
            }
            values.append(apply(operation, taken, parameters))
            positive.append(_is_positive(operation, [positive[n] for n in operation.inputs]))
        return [values[n] for n in self.program.outputs]

    def _rounded(self, number: int, x: Tensor, positive: list[bool]) -> Tensor:
        found = None if self.ranges is None else self.ranges[number]
        if found is None:
            return _rounded_by_image(x, positive[number])
        low, high = min(found[0], 0.0), max(found[1], 0.0)
        if low == high:  # it was zero in all images
            return torch.zeros_like(x)
        scale = (high - low) / 255
        zero = round(-low / scale)
        return ((x / scale).round().clamp(-zero, 255 - zero)) * scale


def _rounded_by_image(x: Tensor, positive: bool) -> Tensor:
    steps = 255 if positive else 127
    dims = tuple(range(1, x.ndim))
    scale = x.abs().amax(dims, keepdim=True).clamp_min(1e-34) / steps
    return (x / scale).round().clamp(-128, 255) * scale


def _multiplies_bytes(operation: Operation) -> bool:
    weight = operation.parameters.get("weight")
    if not isinstance(weight, LayerWeight):
        return False
    form, groups = weight.weight.format, operation.settings.get("groups", 1)
    known = form.codebook in ((-1, 1), (-1, 0, 1)) and form.num_scales <= form.num_rows
    is_depthwise = weight.shape[1] == 1 and groups == weight.shape[0]
    return known and (is_depthwise or groups == 1 or weight.shape[1] % 4 == 0)


def _is_positive(operation: Operation, inputs: list[bool]) -> bool:
    activation = operation.settings.get("activation")
    if activation is not None:
        low = activation.get("low")
        return activation["kind"] in _POSITIVE or (low is not None and low >= 0)
    if operation.op == "softmax":
        return not operation.settings["log"]
    return operation.op in _KEEP_SIGN and all(inputs)
