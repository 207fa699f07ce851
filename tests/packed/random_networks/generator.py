"""The generator of networks."""

import math
from random import Random

from torch import nn

from tests.packed.cases import randomize_norm
from tests.packed.random_networks.parts import (
    CONV,
    CONV_TRANSPOSE,
    NORM,
    ODDITIES,
    OWN_WAYS,
    SUBCLASSES,
    Attention,
    Buffered,
    LooksAtRows,
    LooksAtWeight,
    Named,
    PlainList,
    Recurrent,
    RegisteredTwice,
    Residual,
    Sum,
    TiedAutoencoder,
    TiedConvolution,
    Tokens,
    Twice,
    TwoOutputs,
    Uncalled,
    hook,
    patch,
    pre_hook,
    with_own_forward,
)

NAMES = ("a", "body", "codes", "scale", "weight", "input", "network", "module", "bias", "forward_2")
MAX_POOL = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
MEAN_POOL = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}


class Generator:
    """Makes the parts of one network and notes what is special about them.

    Sizes are those of one row: (features,), (steps, features) or (channels, *positions).
    """

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.traits: list[str] = []
        self.odd_layers: list[nn.Module] = []  # with ways of their own

    def note(self, trait: str) -> None:
        if trait not in self.traits:
            self.traits.append(trait)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def width(self) -> int:
        return self.random.choice((self.random.randint(1, 70), self.random.randint(2, 17)))

    def odd(self, layer: nn.Module, trait: str) -> None:
        self.note(trait)
        if trait in OWN_WAYS:
            self.odd_layers.append(layer)

    def layer(self, plain: type[nn.Module], *arguments, **options) -> nn.Module:
        """A layer, one in four with something about it."""
        if self.chance(0.08):
            trait = self.random.choice(list(SUBCLASSES))
            layer = SUBCLASSES[trait](plain)(*arguments, **options)
            self.odd(layer, trait)
            return layer
        layer = plain(*arguments, **options)
        if self.chance(0.16):
            trait = self.random.choice(list(ODDITIES))
            ODDITIES[trait](layer)
            self.odd(layer, trait)
        return layer

    def linear(self, width: int, out: int) -> nn.Module:
        return self.layer(nn.Linear, width, out, bias=self.chance(0.7))

    def activation(self) -> nn.Module:
        return self.random.choice((nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Identity, nn.Dropout))()

    def together(self, parts: list[nn.Module]) -> nn.Module:
        """Parts one after the other, in one of the ways to write it."""
        way = self.random.randrange(4)
        if way == 0:
            return Named(dict(zip(self.random.sample(NAMES, len(parts)), parts, strict=True)))
        if way == 1 and len(parts) == 2 and self.chance(0.12):
            self.note("plain list")
            return PlainList(*parts)
        if way == 2:
            return nn.Sequential(nn.Sequential(*parts[:1]), nn.Sequential(*parts[1:]))
        return nn.Sequential(*parts)

    # Parts for rows and sequences; all but the last size stay.

    def dense(self, sizes):
        out = self.width()
        return self.together([self.linear(sizes[-1], out), self.activation()]), (*sizes[:-1], out)

    def dense_normalized(self, sizes):
        out = max(4, self.width())
        return self.together([self.linear(sizes[-1], out), nn.LayerNorm(out)]), (*sizes[:-1], out)

    def dense_residual(self, sizes):
        self.note("residual")
        width, hidden = sizes[-1], self.width()
        inner = [self.linear(width, hidden), self.activation(), self.linear(hidden, width)]
        return Residual(self.together(inner)), sizes

    def dense_twice(self, sizes):
        self.note("one module twice")
        return Twice(self.linear(sizes[-1], sizes[-1])), sizes

    def dense_shared(self, sizes):
        self.note("one weight in two layers")
        first, second = (nn.Linear(sizes[-1], sizes[-1], bias=self.chance(0.7)) for _ in range(2))
        second.weight = first.weight
        return self.together([first, nn.Tanh(), second]), sizes

    def dense_tied(self, sizes):
        self.note("weight read in forward")
        return TiedAutoencoder(sizes[-1], self.width()), sizes

    def dense_uncalled(self, sizes):
        self.note("layer never called")
        out = self.width()
        return Uncalled(sizes[-1], out), (*sizes[:-1], out)

    def dense_registered_twice(self, sizes):
        self.note("weight in two modules")
        return RegisteredTwice(sizes[-1]), sizes

    def dense_one_bias(self, sizes):
        self.note("one bias in two layers")
        first, second = (nn.Linear(sizes[-1], sizes[-1]) for _ in range(2))
        second.bias = first.bias
        return self.together([first, nn.Tanh(), second]), sizes

    def dense_looked_at(self, sizes):
        self.note("dtype of a weight read")
        out = self.width()
        return LooksAtWeight(nn.Linear(sizes[-1], out)), (*sizes[:-1], out)

    def dense_branches(self, sizes):
        self.note("branches")
        return Sum(self.linear(sizes[-1], sizes[-1]) for _ in range(2)), sizes

    def row_dependent(self, sizes):
        self.note("flow depends on rows")
        return LooksAtRows(self.linear(sizes[-1], sizes[-1])), sizes

    def buffered(self, sizes):
        persistent = self.chance(0.6)
        self.note("buffer" if persistent else "buffer outside of the state")
        return Buffered(1 + self.random.random(), self.random.random(), persistent), sizes

    # Parts for sequences alone.

    def attention(self, sizes):
        self.note("attention")
        heads = self.random.choice([h for h in (1, 2, 3) if sizes[-1] % h == 0])
        return Attention(sizes[-1], heads), sizes

    def transformer(self, sizes):
        self.note("transformer layer")
        width, hidden = sizes[-1], self.width()
        heads = self.random.choice([h for h in (1, 2, 3) if width % h == 0])
        options = {"batch_first": True, "norm_first": self.chance(0.5)}
        layer = nn.TransformerEncoderLayer(width, heads, hidden, **options)
        return layer if self.chance(0.5) else nn.TransformerEncoder(layer, 2), sizes

    def recurrent(self, sizes):
        self.note("recurrent")
        out = self.random.randint(1, 9)
        kind = self.random.choice((nn.LSTM, nn.GRU))
        return Recurrent(kind, sizes[-1], out), (sizes[0], out)

    # Parts for signals, images and volumes.

    def convolution(self, sizes) -> tuple[nn.Module, tuple[int, ...]]:
        rank, channels = len(sizes) - 1, sizes[0]
        while True:
            kernel = [self.random.randint(1, 4) for _ in range(rank)]
            dilation = [self.random.choice((1, 1, 2)) for _ in range(rank)]
            stride = [self.random.choice((1, 1, 2)) for _ in range(rank)]
            padding = [self.random.randint(0, 2) for _ in range(rank)]
            mode = self.random.choice(("zeros", "zeros", "reflect", "replicate", "circular"))
            reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            out = [
                (n + 2 * p - r - 1) // s + 1
                for n, p, r, s in zip(sizes[1:], padding, reach, stride, strict=True)
            ]
            if min(out) >= 1 and all(p < n for p, n in zip(padding, sizes[1:], strict=True)):
                break
        if max(stride) == 1 and self.chance(0.2) and max(reach) < min(sizes[1:]):
            padding, out = "same", list(sizes[1:])
        groups = self.random.choice([g for g in range(1, channels + 1) if channels % g == 0])
        if groups == channels > 1:
            self.note("depthwise")
        out_channels = groups * self.random.randint(1, max(1, 12 // groups))
        options = {"stride": tuple(stride), "dilation": tuple(dilation), "groups": groups}
        options["padding"] = padding if padding == "same" else tuple(padding)
        options |= {"padding_mode": mode, "bias": self.chance(0.6)}
        layer = self.layer(CONV[rank], channels, out_channels, tuple(kernel), **options)
        return layer, (out_channels, *out)

    def norm(self, channels: int, rank: int) -> nn.Module:
        norm = NORM[rank](channels, affine=self.chance(0.85), eps=self.random.choice((1e-5, 0.1)))
        randomize_norm(norm)
        if self.chance(0.06):
            self.note("hook of a normalization")
            self.random.choice((hook, pre_hook))(norm)
        elif self.chance(0.04):
            self.note("patched normalization")
            patch(norm)
        elif self.chance(0.04):
            self.note("normalization with own forward")
            own = with_own_forward(NORM[rank])(channels)
            randomize_norm(own)
            return own
        return norm

    def conv(self, sizes):
        layer, sizes = self.convolution(sizes)
        return self.together([layer, self.activation()]), sizes

    def conv_normalized(self, sizes):
        self.note("convolution, normalization")
        layer, sizes = self.convolution(sizes)
        parts = [layer, self.norm(sizes[0], len(sizes) - 1)]
        if self.chance(0.2):
            self.note("something before a normalization")
            parts.insert(1, self.activation())
        if len(parts) == 2 and self.chance(0.7):
            return nn.Sequential(self.together(parts), self.activation()), sizes
        return self.together([*parts, self.activation()]), sizes

    def conv_residual(self, sizes):
        self.note("residual")
        rank, channels = len(sizes) - 1, sizes[0]
        hidden = self.random.randint(1, 9)
        inner = [
            self.layer(CONV[rank], channels, hidden, 3, padding=1, bias=False),
            self.norm(hidden, rank),
            nn.ReLU(),
            self.layer(CONV[rank], hidden, channels, 1),
            self.norm(channels, rank),
        ]
        return Residual(self.together(inner)), sizes

    def conv_twice(self, sizes):
        self.note("one module twice")
        rank, channels = len(sizes) - 1, sizes[0]
        layer = CONV[rank](channels, channels, 3, padding=1)
        parts = [layer, self.norm(channels, rank), nn.ReLU(), layer]
        return nn.Sequential(
            *parts, *([self.norm(channels, rank)] if self.chance(0.5) else [])
        ), sizes

    def conv_shared(self, sizes):
        self.note("one weight in two layers")
        rank, channels = len(sizes) - 1, sizes[0]
        first, second = (CONV[rank](channels, channels, 1, bias=self.chance(0.5)) for _ in range(2))
        second.weight = first.weight
        norms = [self.norm(channels, rank) if self.chance(0.7) else nn.Identity() for _ in range(2)]
        return self.together([first, norms[0], nn.ReLU(), second, norms[1]]), sizes

    def conv_tied(self, sizes):
        reads = self.random.choice(("weight", "bias", "norm"))
        self.note(f"{reads} read in forward")
        return TiedConvolution(sizes[0], self.random.randint(1, 9), len(sizes) - 1, reads), sizes

    def conv_transposed(self, sizes):
        self.note("transposed")
        rank, channels = len(sizes) - 1, sizes[0]
        groups = self.random.choice([g for g in range(1, channels + 1) if channels % g == 0])
        out = groups * self.random.randint(1, max(1, 6 // groups))
        kernel, stride = self.random.randint(1, 3), self.random.randint(1, 2)
        padding = self.random.randint(0, (kernel - 1) // 2)
        more = self.random.randint(0, stride - 1)
        options = {"stride": stride, "padding": padding, "output_padding": more, "groups": groups}
        layer = self.layer(
            CONV_TRANSPOSE[rank], channels, out, kernel, bias=self.chance(0.6), **options
        )
        new = [(n - 1) * stride - 2 * padding + kernel + more for n in sizes[1:]]
        parts = [layer, *([self.norm(out, rank)] if self.chance(0.4) else [])]
        return nn.Sequential(*parts, self.activation()), (out, *new)

    def conv_branches(self, sizes):
        self.note("branches")
        rank, channels = len(sizes) - 1, sizes[0]
        one = nn.Sequential(
            self.layer(CONV[rank], channels, channels, 1), self.norm(channels, rank)
        )
        return Sum([one, self.layer(CONV[rank], channels, channels, 3, padding=1)]), sizes

    def dense_on_maps(self, sizes):
        self.note("Linear on maps")
        out = self.random.randint(3, 9)
        return self.linear(sizes[-1], out), (*sizes[:-1], out)

    def pooled(self, sizes):
        if min(sizes[1:]) < 3:
            return nn.Tanh(), sizes
        rank = len(sizes) - 1
        return MAX_POOL[rank](2), (sizes[0], *[n // 2 for n in sizes[1:]])

    # Whole networks.

    def chain(self, sizes, kind: str, length: int) -> tuple[nn.Module, tuple[int, ...]]:
        rows = [
            *[self.dense] * 4, *[self.dense_normalized] * 2, self.dense_residual, self.dense_twice,
            self.dense_shared, self.dense_tied, self.dense_looked_at, self.dense_branches,
            self.dense_uncalled, self.dense_registered_twice, self.dense_one_bias,
            self.row_dependent, self.buffered,
        ]  # fmt: skip
        maps = [
            *[self.conv] * 3, *[self.conv_normalized] * 5, self.conv_residual, self.conv_twice,
            self.conv_shared, self.conv_tied, self.conv_transposed, self.conv_branches, self.pooled,
            self.buffered, self.dense_on_maps,
        ]  # fmt: skip
        sequences = [*rows, *[self.attention] * 2, self.transformer, self.recurrent]
        choices = {"rows": rows, "sequence": sequences, "maps": maps}[kind]
        parts = []
        for _ in range(length):
            part, sizes = self.random.choice(choices)(sizes)
            parts.append(part)
        return self.together(parts), sizes

    def network(self) -> tuple[nn.Module, tuple[int, ...] | int]:
        """A network, and the sizes of a row of its input, or the size of its vocabulary."""
        kind = self.random.choice(
            ("rows", "sequence", "tokens", "signal", "image", "image", "volume")
        )
        self.note(kind)
        if kind == "tokens":
            return self.token_network()
        if kind in ("rows", "sequence"):
            sizes = (self.width(),) if kind == "rows" else (self.random.randint(1, 6), self.width())
            body, out = self.chain(sizes, kind, self.random.randint(1, 4))
            return self.with_heads(body, out[-1]), sizes
        rank = {"signal": 1, "image": 2, "volume": 3}[kind]
        largest = {1: 17, 2: 9, 3: 5}[rank]
        sizes = (self.random.randint(1, 5), *[self.random.randint(3, largest) for _ in range(rank)])
        body, out = self.chain(sizes, "maps", self.random.randint(1, 3))
        if self.chance(0.15):
            self.note("no head")
            return body, sizes
        pool = MEAN_POOL[rank](1) if self.chance(0.5) or math.prod(out) > 400 else nn.Identity()
        features = out[0] if not isinstance(pool, nn.Identity) else math.prod(out)
        return self.with_heads(nn.Sequential(body, pool, nn.Flatten()), features), sizes

    def with_heads(self, body: nn.Module, features: int) -> nn.Module:
        if self.chance(0.1):
            self.note("two outputs")
            return TwoOutputs(body, [self.linear(features, self.width()) for _ in range(2)])
        return self.together([body, self.linear(features, self.width())])

    def token_network(self) -> tuple[nn.Module, int]:
        vocabulary, width = self.random.randint(2, 40), self.random.randint(2, 20)
        kind = nn.EmbeddingBag if self.chance(0.2) else nn.Embedding
        sizes = (width,) if kind is nn.EmbeddingBag else (5, width)
        body, (*_, out) = self.chain(sizes, "rows" if kind is nn.EmbeddingBag else "sequence", 2)
        if out != width:
            body = nn.Sequential(body, self.linear(out, width))
        tied = self.chance(0.5)
        self.note(f"{'tied' if tied else 'own'} {kind.__name__}")
        return Tokens(kind(vocabulary, width), body, tied), vocabulary
