"""A network with its quantizers and inputs.

``Case(seed)`` is a network: tied, shared, nested, hooked, patched, of odd widths, with a quantizer
for its weights.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from random import Random

import torch
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    Levels,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    PowerOfTwo,
    Quantizer,
    Ternary,
    TernaryThreshold,
    Uniform,
    select_weights,
)
from tests.packed.random_networks.generator import Generator
from tests.packed.random_networks.parts import CONV, CONV_TRANSPOSE

ROWS = (1, 5, 17)  # of the batches that outputs are compared on
QUANTIZERS: tuple[Callable[[Random], Quantizer], ...] = (
    lambda random: Binary(),
    lambda random: Binary(),
    lambda random: Ternary(),
    lambda random: Ternary(),
    lambda random: TernaryThreshold(),
    lambda random: Uniform(bits=random.randint(2, 8)),
    lambda random: PowerOfTwo(bits=random.randint(2, 4)),
    lambda random: Levels(random.choice([(1, 3), (0, 1, 3), (0.5,), (0, 1, 2.5, 7), (1, 2, 4, 9)])),
    lambda random: OneStepLloyd(bits=random.randint(2, 5)),
)
_TRANSPOSED = tuple(CONV_TRANSPOSE.values())
LAYERS = (nn.Linear, *CONV.values(), *_TRANSPOSED)


@contextmanager
def quiet() -> Iterator[None]:
    """torch remarks on nested tensors and even kernels, ``select_weights`` on matrices left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass
class Case:
    """A network and how to pack it, all decided by the seed."""

    seed: int
    traits: list[str] = field(init=False)
    keep_float: tuple[str, ...] = field(init=False)
    quantizers: tuple[Quantizer, ...] = field(init=False)  # layers take them in turn
    fold_batchnorm: bool = field(init=False)
    dense: bool = field(init=False)
    dtype: torch.dtype = field(init=False)

    def __post_init__(self) -> None:
        generator, random = Generator(self.seed), Random(f"options of {self.seed}")
        with torch.random.fork_rng(), quiet():
            model, self._input = generator.network()
        self.traits = generator.traits
        self._protects = random.random() < 0.9  # keeps layers float that cannot be packed
        odd = {id(layer) for layer in generator.odd_layers} if self._protects else set()
        names = {n: m for n, m in model.named_modules() if isinstance(m, LAYERS)}
        kept = [n for n, m in names.items() if id(m) in odd or random.random() < 0.1]
        self.keep_float = tuple(kept[: len(names) - 1] if not odd else kept)
        self.dtype = random.choices(
            (torch.float32, torch.bfloat16, torch.float16, torch.float64), (84, 7, 7, 2)
        )[0]
        self.fold_batchnorm = random.random() < 0.5
        self.dense = random.random() < 0.7
        self.trains = random.random() < 0.2  # packed while in training mode
        self.channels_last = "image" in self.traits and random.random() < 0.3
        self.example_rows = random.choice((1, 3))
        count = 2 if random.random() < 0.2 else 1
        self.quantizers = tuple(random.choice(QUANTIZERS)(random) for _ in range(count))
        self._granularity = random.choice(("layer", "layer", "channel", "channel", "group"))
        self._pick = random.random()
        for trait, holds in [
            (str(self.dtype).removeprefix("torch."), True),
            ("fold", self.fold_batchnorm), ("channels last", self.channels_last),
            ("kept float", self.keep_float), ("two quantizers", count == 2),
            (f"one scale per {self._granularity}", True),
            *[(type(quantizer).__name__, True) for quantizer in self.quantizers],
        ]:  # fmt: skip
            if holds:
                self.traits.append(trait)

    def make(self, weights_seed: int = 0, device: str | None = None) -> nn.Module:
        """The network with these random weights, in evaluation mode."""
        place = torch.device(device) if device else nullcontext()
        with torch.random.fork_rng(), place, quiet():
            torch.manual_seed(weights_seed)
            model, _ = Generator(self.seed).network()
            return model.to(self.dtype).eval()

    def weights(self, model: nn.Module) -> dict[Tensor, Quantizer]:
        """The weights to pack, each with its quantizer.

        Raises:
            ValueError: ``select_weights`` refuses.
        """
        weights = select_weights(model, self.quantizers[0], self.keep_float)
        transposed = {m.weight for m in model.modules() if isinstance(m, _TRANSPOSED)}
        for number, weight in enumerate(weights):
            quantizer = self.quantizers[number % len(self.quantizers)]
            if weight in transposed or self._granularity == "layer":
                continue
            granularity = PerChannel()
            if self._granularity == "group":
                length = math.prod(weight.shape[1:])
                divisors = [n for n in range(1, length + 1) if length % n == 0]
                granularity = PerGroup(divisors[int(self._pick * len(divisors))])
            weights[weight] = replace(quantizer, granularity=granularity)
        return weights

    def in_q(self, weights_seed: int = 0) -> tuple[nn.Module, dict[Tensor, Quantizer]]:
        """The network as training leaves it: the weights to pack are in Q."""
        model = self.make(weights_seed)
        weights = self.weights(model)
        with torch.no_grad():
            for weight, quantizer in weights.items():
                weight.copy_(quantizer.project(weight))
        return model, weights

    def inputs(self, rows: int, dtype: torch.dtype | None = None) -> Tensor:
        generator = torch.Generator().manual_seed(rows)
        if isinstance(self._input, int):
            return torch.randint(self._input, (rows, 5), generator=generator)
        x = torch.randn(rows, *self._input, generator=generator).to(dtype or self.dtype)
        return x.to(memory_format=torch.channels_last) if self.channels_last else x

    def batches(self, dtype: torch.dtype | None = None) -> list[Tensor]:
        return [self.inputs(rows, dtype) for rows in ROWS]

    def __str__(self) -> str:
        return f"seed {self.seed} ({', '.join(self.traits)})"
