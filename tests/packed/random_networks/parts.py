"""Parts of networks: odd small modules, and what may be odd about a layer."""

import types
from functools import cache

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from tests.packed.cases import randomize_norm

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
CONV_TRANSPOSE = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
FUNCTIONAL_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class Named(nn.Module):
    """Parts one after the other, under any names."""

    def __init__(self, parts: dict[str, nn.Module]):
        super().__init__()
        self.order = list(parts)
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        for name in self.order:
            x = self._modules[name](x)
        return x


class PlainList(nn.Module):
    """Parts that are registered, and called through a list that torch knows nothing of."""

    def __init__(self, first: nn.Module, second: nn.Module):
        super().__init__()
        self.first, self.second = first, second
        self.parts = [self.first, self.second]

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Residual(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Sum(nn.ModuleList):
    def forward(self, x):
        return sum(part(x) for part in self)


class Twice(nn.Module):
    """One module under two names."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.first = part
        self.again = nn.Sequential(nn.Tanh(), part)

    def forward(self, x):
        return self.again(self.first(x))


class TiedAutoencoder(nn.Module):
    """Reads the weight of its Linear layer in forward."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.encode = nn.Linear(width, hidden)

    def forward(self, x):
        return F.linear(torch.tanh(self.encode(x)), self.encode.weight.t())


class Uncalled(nn.Module):
    """Never calls its layer: reads weight and bias; and has another layer that nobody uses."""

    def __init__(self, width: int, out: int):
        super().__init__()
        self.layer, self.unused = nn.Linear(width, out), nn.Linear(3, 2)

    def forward(self, x):
        return F.linear(x, self.layer.weight, self.layer.bias)


class RegisteredTwice(nn.Module):
    """The weight of its layer is a parameter of its own, too."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.also = self.layer.weight

    def forward(self, x):
        return F.linear(torch.tanh(self.layer(x)), self.also)


class TiedConvolution(nn.Module):
    """Reads what belongs to its convolution and normalization in forward."""

    def __init__(self, channels: int, hidden: int, rank: int, reads: str):
        super().__init__()
        self.conv = CONV[rank](channels, hidden, 3, padding=1)
        self.bn = NORM[rank](hidden)
        randomize_norm(self.bn)
        self.reads, self.rank = reads, rank

    def forward(self, x):
        y = self.bn(self.conv(x))
        if self.reads == "weight":
            back = FUNCTIONAL_TRANSPOSE[self.rank]
            return back(torch.relu(y), self.conv.weight, padding=1)
        value = self.conv.bias if self.reads == "bias" else self.bn.weight
        return x + y.mean(1, keepdim=True) * value.sum()


class Buffered(nn.Module):
    """Buffers, one of them not in the state."""

    def __init__(self, factor: float, shift: float, persistent: bool):
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor), persistent=persistent)
        self.register_buffer("shift", torch.tensor([shift]))

    def forward(self, x):
        return x * self.factor + self.shift


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=False)[0]


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module], width: int, hidden: int):
        super().__init__()
        self.recurrent = kind(width, hidden, batch_first=True)

    def forward(self, x):
        return self.recurrent(x)[0]


class LooksAtRows(nn.Module):
    """Its way depends on a size; what it gives does not."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) if x.shape[0] > 3 else self.inner(x * 1)


class LooksAtWeight(nn.Module):
    """Asks the layer for dtype and device of its weight, as networks of transformers do."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        weight = self.layer.weight
        return self.layer(x.to(weight.device, weight.dtype))


class TwoOutputs(nn.Module):
    def __init__(self, body: nn.Module, heads: list[nn.Module]):
        super().__init__()
        self.body, self.heads = body, nn.ModuleList(heads)

    def forward(self, x):
        y = self.body(x)
        return tuple(head(y) for head in self.heads)


class Tokens(nn.Module):
    """An embedding in front, and a head that has its weight or one of its own."""

    def __init__(self, embedding: nn.Module, body: nn.Module, tied: bool):
        super().__init__()
        self.embedding, self.body = embedding, body
        vocabulary, width = embedding.weight.shape
        self.head = nn.Linear(width, vocabulary, bias=not tied)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


class Halved(nn.Module):
    """A parametrization."""

    def forward(self, weight):
        return weight / 2


@cache  # one class, whoever asks
def with_own_forward(plain: type[nn.Module]) -> type[nn.Module]:
    class OwnForward(plain):
        def forward(self, x):
            return super().forward(x) * 0.5

    return OwnForward


@cache
def _with_buffer(plain: type[nn.Module]) -> type[nn.Module]:
    class WithBuffer(plain):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.register_buffer("count", torch.tensor(3))

    return WithBuffer


@cache
def _with_child(plain: type[nn.Module]) -> type[nn.Module]:
    class WithChild(plain):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.extra = nn.Linear(2, 3)

    return WithChild


@cache
def _with_attribute(plain: type[nn.Module]) -> type[nn.Module]:
    class WithAttribute(plain):
        """A subclass that is nothing but its parent, with a word to say."""

        @property
        def fan_in(self):
            return self.weight[0].numel()

    return WithAttribute


SUBCLASSES = {
    "own forward": with_own_forward,
    "buffer in a layer": _with_buffer,
    "child in a layer": _with_child,
    "attribute in a layer": _with_attribute,
}


def _add_one(module, arguments, output):
    return output + 1


def _double(module, arguments):
    return (arguments[0] * 2,)


def _half_of_it(self, x):
    return type(self).forward(self, x) * 0.5


def hook(layer: nn.Module) -> None:
    layer.register_forward_hook(_add_one)


def pre_hook(layer: nn.Module) -> None:
    layer.register_forward_pre_hook(_double)


def patch(layer: nn.Module) -> None:
    layer.forward = types.MethodType(_half_of_it, layer)


def _parametrize(layer: nn.Module) -> None:
    parametrize.register_parametrization(layer, "weight", Halved())


def _normalize_weight(layer: nn.Module) -> None:
    parametrizations.weight_norm(layer)


def _prune(layer: nn.Module) -> None:
    prune.custom_from_mask(layer, "weight", torch.ones_like(layer.weight).tril())


def _prune_bias(layer: nn.Module) -> None:
    if layer.bias is not None:
        prune.custom_from_mask(layer, "bias", torch.zeros_like(layer.bias))


def _freeze(layer: nn.Module) -> None:
    layer.requires_grad_(False)


@torch.no_grad()
def _zero_row(layer: nn.Module) -> None:
    layer.weight[0] = 0


@torch.no_grad()
def _zero(layer: nn.Module) -> None:
    layer.weight.zero_()


@torch.no_grad()
def _make_tiny(layer: nn.Module) -> None:
    layer.weight.mul_(1e-5)


ODDITIES = {
    "hook": hook,
    "pre-hook": pre_hook,
    "patched forward": patch,
    "parametrization": _parametrize,
    "weight norm": _normalize_weight,
    "pruned weight": _prune,
    "pruned bias": _prune_bias,
    "frozen": _freeze,
    "zero row": _zero_row,
    "zero weight": _zero,
    "tiny weight": _make_tiny,
}
# A layer like this cannot be packed: mostly the case keeps it float.
OWN_WAYS = {
    "own forward", "buffer in a layer", "child in a layer", "patched forward", "parametrization",
    "weight norm", "pruned weight", "pruned bias",
}  # fmt: skip
