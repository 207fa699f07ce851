"""Networks whose weights are in Q, and what the tests of packed networks compare."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    PerChannel,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
    Uniform,
    pack,
    select_weights,
)
from binaryrelax.packed import engines

ENGINES = ("torch", *(["native"] if engines.native() is not None else []))
QUANTIZERS = (
    Binary(),
    Ternary(),
    Uniform(bits=3),
    Binary(granularity=PerChannel()),
    Ternary(granularity=PerGroup(2)),
)


def put_in_q(model: nn.Module, quantizer: Quantizer, keep_float=()) -> dict[Tensor, Quantizer]:
    """Projects the weights of the model, as the end of Phase II leaves them, and returns them."""
    weights = select_weights(model, quantizer, keep_float=keep_float)
    with torch.no_grad():
        for weight in weights:
            weight.copy_(quantizer.project(weight))
    return weights


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A model with the same random weights every time, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().eval()


def packed_copy(
    make: Callable[[], nn.Module], quantizer: Quantizer, **options
) -> tuple[nn.Module, nn.Module]:
    """The same network twice: float with weights in Q, and packed."""
    keep_float = options.pop("keep_float", ())
    plain, other = seeded(make), seeded(make)
    put_in_q(plain, quantizer, keep_float)
    return plain, pack(other, put_in_q(other, quantizer, keep_float), **options)


def at_all_granularities(quantizer: Quantizer, size: int) -> list[Quantizer]:
    return [replace(quantizer, granularity=g) for g in (PerLayer(), PerChannel(), PerGroup(size))]


def small_network() -> nn.Sequential:
    """Two convolutions with batch normalization of which nothing is trivial, and a Linear layer."""
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            randomize_norm(module)
    return model


def randomize_norm(norm: nn.Module) -> None:
    """Statistics and factors as a trained normalization may have them, of both signs."""
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.1, 3)
        if norm.weight is not None:
            norm.weight.normal_()
            norm.bias.normal_()


def inputs(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


IMAGES = inputs(5, 2, 6, 6)  # for small_network


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Of the norm."""
    size = expected.double().norm().clamp_min(1e-30)
    return float((found.double() - expected.double()).norm() / size)


def same_tensor(first: Tensor, second: Tensor) -> bool:
    """Bit for bit, in dtype and shape too."""
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and torch.equal(_bytes(first), _bytes(second))
    )


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8)


def snapshot(model: nn.Module) -> dict:
    """All that loading could change: modules with their modes, and the bits of all tensors."""
    kinds = [(n, type(m), m.training) for n, m in model.named_modules(remove_duplicate=False)]
    tensors = {n: (t.dtype, t.shape, _bytes(t).clone()) for n, t in model.state_dict().items()}
    return {"modules": kinds, "tensors": tensors}


def same_snapshot(first: dict, second: dict) -> bool:
    if first["modules"] != second["modules"] or list(first["tensors"]) != list(second["tensors"]):
        return False
    pairs = zip(first["tensors"].values(), second["tensors"].values(), strict=True)
    return all(a[:2] == b[:2] and torch.equal(a[2], b[2]) for a, b in pairs)


class Tied(nn.Module):
    """Two Linear layers with one weight, and biases of their own."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Language(nn.Module):
    """An embedding whose weight the last Linear layer has too."""

    def __init__(self):
        super().__init__()
        self.embedding, self.decoder = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, tokens):
        return self.decoder(self.embedding(tokens))


class Twice(nn.Module):
    """One module under two names of the same parent, and under a third elsewhere."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.again = self.first
        self.inner = nn.Sequential(nn.ReLU(), self.first)

    def forward(self, x):
        return self.inner(self.again(self.first(x)))


class Residual(nn.Module):
    """A block as in a ResNet, with a convolution in its shortcut."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.shortcut = nn.Sequential(nn.Conv2d(2, 4, 1, bias=False), nn.BatchNorm2d(4))
        for norm in (self.bn1, self.bn2, self.shortcut[1]):
            randomize_norm(norm)

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


def pack_refused(model, weights, **options) -> str:
    """Why pack refuses; the model must stay as it was."""
    before = snapshot(model)
    with pytest.raises(ValueError) as caught:
        pack(model, weights, **options)
    assert same_snapshot(snapshot(model), before)
    text = str(caught.value)
    assert text.startswith("pack: ") and "\n" not in text
    return text


def by_engine(engine: str):
    return engines.torch_only() if engine == "torch" else nullcontext()


def layer_pair(make, quantizer):
    """A float layer with weights in Q, and the packed one."""
    plain, packed = packed_copy(lambda: nn.Sequential(make()), quantizer)
    return plain[0], packed[0]
