"""A network with its quantizers and inputs. ``Case(seed)`` decides all of it."""

import math
from dataclasses import replace
from random import Random

import torch
from torch import Tensor, nn

from binaryrelax import PerChannel, PerGroup, Quantizer, select_weights
from tests.export.random_programs import steps
from tests.packed.random_networks.case import QUANTIZERS, quiet

MOST_NUMBERS = {4: 20_000, 2: 2_000}  # of a map, of a vector, for a batch of two
MOST = 1e4  # that a value may hold
TRIES = 40  # for a step that fits


class RandomNetwork(nn.Module):
    """Steps over numbered values, inputs first; the last of the outputs is made by a layer.

    Args:
        wiring: for each step, the values that it takes.
        outputs: values.
    """

    def __init__(self, parts: list[nn.Module], wiring: list[list[int]], outputs: list[int]):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.wiring, self.outputs = wiring, outputs

    def forward(self, first: Tensor):
        return self.outputs_of(first)

    def outputs_of(self, *inputs: Tensor):
        values = list(inputs)
        for part, sources in zip(self.parts, self.wiring, strict=True):
            values.append(part(*(values[source] for source in sources)))
        found = tuple(values[output] for output in self.outputs)
        return found if len(found) > 1 else found[0]


class WithTwoInputs(RandomNetwork):
    """``torch.fx`` must see how many there are."""

    def forward(self, first: Tensor, second: Tensor):
        return self.outputs_of(first, second)


class Case:
    """A network, how it is packed and what it is given.

    Attributes:
        traits: what there is in it, for the counts of a run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"program {seed}")
        self.traits: list[str] = []
        with torch.random.fork_rng(), quiet():
            torch.manual_seed(seed)
            self._network = self._made()
        random = self.random
        self.fold_batchnorm = random.random() < 0.5
        self.is_calibrated = random.random() < 0.5
        self._quantizers = [
            random.choice(QUANTIZERS)(random) for _ in range(random.choice([1, 1, 2]))
        ]
        self._granularity = random.choice(["layer", "layer", "channel", "channel", "group"])
        self._pick, self._keep = random.random(), random.choice([0.0, 0.1, 0.3])
        self.batches = sorted(random.sample(range(1, 20), 2))
        self.note(f"one scale per {self._granularity}")
        self.note("calibrated" if self.is_calibrated else "measured")
        for quantizer in self._quantizers:
            self.note(type(quantizer).__name__)

    def note(self, trait: str) -> None:
        if trait not in self.traits:
            self.traits.append(trait)

    def in_q(self) -> tuple[nn.Module, dict[Tensor, Quantizer]]:
        """The network as training leaves it, and the weights to pack."""
        network, random = self._network.eval(), Random(f"weights {self.seed}")
        layers = {n: m for n, m in network.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
        kept = tuple(name for name in list(layers)[:-1] if random.random() < self._keep)
        if kept:
            self.note("float layers")
        weights = select_weights(network, self._quantizers[0], keep_float=kept)
        for number, weight in enumerate(weights):
            quantizer = self._quantizers[number % len(self._quantizers)]
            weights[weight] = replace(quantizer, granularity=self._granularity_of(weight))
            with torch.no_grad():
                weight.copy_(weights[weight].project(weight))
        return network, weights

    def _granularity_of(self, weight: Tensor):
        plain = self._quantizers[0].granularity
        if self._granularity == "channel":
            return PerChannel()
        if self._granularity == "layer":
            return plain
        length = math.prod(weight.shape[1:])
        divisors = [n for n in range(1, length + 1) if length % n == 0]
        return PerGroup(divisors[int(self._pick * len(divisors))])

    def inputs(self, rows: int, more: int = 0) -> tuple[Tensor, ...]:
        """Numbers about as images have them; ``more`` pixels on each side of maps."""
        generator = torch.Generator().manual_seed(1000 * self.seed + 10 * rows + more)
        shapes = [(rows, s[0], *(n + more for n in s[1:])) for s in self._inputs]
        return tuple(torch.randn(shape, generator=generator) for shape in shapes)

    # Making of the network

    def _made(self) -> RandomNetwork:
        random = self.random
        self._inputs = [self._input() for _ in range(random.choice([1, 1, 1, 1, 2]))]
        self._values = [torch.randn(2, *shape) for shape in self._inputs]
        self._parts: list[nn.Module] = []
        self._wiring: list[list[int]] = []
        for _ in range(random.choice([1, 2, 4, 7, 11, 16])):
            self._grow()
        self._end_in_a_layer()
        first, last = len(self._inputs), len(self._values) - 1
        made = [value for value in range(first, last + 1) if not self._is_an_input(value)]
        more = random.sample(made, min(len(made), random.choice([0, 0, 0, 1, 2])))
        if more:
            self.note("several outputs")
        return self._without_idle_parts([*more, last])

    def _is_an_input(self, value: int) -> bool:
        """As it came, which no file may give."""
        inputs = self._values[: len(self._inputs)]
        return any(torch.equal(self._values[value].flatten(1), x.flatten(1)) for x in inputs)

    def _without_idle_parts(self, outputs: list[int]) -> RandomNetwork:
        """The network of the steps that outputs are made of: others would not be in a file."""
        first, needed = len(self._inputs), set(outputs)
        for value in range(len(self._values) - 1, first - 1, -1):
            if value in needed:
                needed.update(self._wiring[value - first])
        kept = [value for value in range(first, len(self._values)) if value in needed]
        place = {value: i for i, value in enumerate([*range(first), *kept])}
        return (WithTwoInputs if first == 2 else RandomNetwork)(
            [self._parts[value - first] for value in kept],
            [[place[source] for source in self._wiring[value - first]] for value in kept],
            [place[value] for value in outputs],
        )

    def _input(self) -> tuple[int, ...]:
        random = self.random
        if random.random() < 0.15:
            self.note("vectors")
            return (steps.width(random),)
        self.note("maps")
        return (random.choice([1, 2, 3, 3, 4, 8, 17]), random.randint(1, 21), random.randint(1, 21))

    def _grow(self) -> None:
        """One step more, of a kind that fits what it is given."""
        for _ in range(TRIES):
            source = self._source()
            maker = self.random.choice(_OF_MAPS if self._values[source].ndim == 4 else _OF_VECTORS)
            found = maker(self, source)
            if found is not None and self._added(maker.__name__.strip("_"), *found):
                return

    def _source(self) -> int:
        """Mostly a value that is new."""
        last = len(self._values) - 1
        return last if self.random.random() < 0.75 else self.random.randint(0, last)

    def _added(self, kind: str, part: nn.Module, sources: list[int], most: float = MOST) -> bool:
        """Whether the step gives numbers of a size that a network would have."""
        part.eval()
        with torch.no_grad():
            value = part(*(self._values[source].clone() for source in sources))
        is_good = 0 < value.numel() <= MOST_NUMBERS[value.ndim] and float(value.abs().max()) <= most
        if is_good and bool(value.isfinite().all()):
            self._parts.append(part)
            self._wiring.append(sources)
            self._values.append(value)
            self.note(kind)
            return True
        return False

    def _end_in_a_layer(self) -> None:
        """So that something is packed whatever the steps were."""
        value, last = self._values[-1], len(self._values) - 1
        if value.ndim == 4 and self.random.random() < 0.6:
            layer = nn.Conv2d(value.shape[1], steps.width(self.random), 1)
            if self._added("head", layer, [last]):
                return
        before = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if value.ndim == 4 else []
        head = nn.Linear(value.shape[1], steps.width(self.random))
        assert self._added("head", nn.Sequential(*before, head), [last], most=math.inf)

    def _like(self, value: Tensor, sizes: slice) -> list[int]:
        """Values whose sizes there are the same."""
        return [
            i for i, v in enumerate(self._values)
            if v.ndim == value.ndim and v.shape[sizes] == value.shape[sizes]
        ]  # fmt: skip

    def _layer(self, layer: nn.Module, channels: int, maps: bool) -> nn.Module:
        """A layer with what mostly follows one."""
        parts = [layer]
        if self.random.random() < 0.5:
            parts.append(steps.norm(self.random, channels, maps))
        if self.random.random() < 0.7:
            parts.append(steps.activation(self.random))
        return nn.Sequential(*parts) if len(parts) > 1 else layer

    def _convolution(self, source: int):
        layer = steps.convolution(self.random, tuple(self._values[source].shape))
        self.note("depthwise" if layer.groups == layer.in_channels > 1 else "convolution")
        if 1 < layer.groups < layer.in_channels:
            self.note("groups")
        return self._layer(layer, layer.out_channels, True), [source]

    def _wide_convolution(self, source: int):
        """Channels in multiples of 64, for which there are ways of their own."""
        value = self._values[source]
        inputs, outputs = self.random.choice([64, 128]), self.random.choice([48, 64, 64, 80, 128])
        if value.shape[1] % 64:
            before = nn.Conv2d(value.shape[1], inputs, 1, bias=False)
            if not self._added("branch", before, [source]):
                return None
            source = len(self._values) - 1
        inputs = self._values[source].shape[1]
        padding = self.random.choice([0, 1, 1, 1, 2]) if min(value.shape[2:]) > 2 else 1
        layer = nn.Conv2d(inputs, outputs, 3, padding=padding, bias=self.random.random() < 0.5)
        self.note("wide")
        return self._layer(layer, outputs, True), [source]

    def _linear(self, source: int):
        layer = nn.Linear(self._values[source].shape[1], steps.width(self.random))
        return self._layer(layer, layer.out_features, False), [source]

    def _residual(self, source: int):
        channels = self._values[source].shape[1]
        if self._values[source].ndim == 4:
            kernel = self.random.choice([1, 3])
            layer: nn.Module = nn.Conv2d(
                channels, channels, kernel, padding=kernel // 2, bias=False
            )
        else:
            layer = nn.Linear(channels, channels)
        if not self._added(
            "branch", self._layer(layer, channels, layer.weight.ndim == 4), [source]
        ):
            return None
        add = self.random.choice(
            [lambda x, y: x + y, lambda x, y: torch.relu(x + y), lambda x, y: x.add(y), torch.add]
        )
        return steps.Does(add), [source, len(self._values) - 1]

    def _sum_or_product(self, source: int):
        other = self.random.choice(self._like(self._values[source], slice(None)))
        code = self.random.choice([torch.add, torch.sub, lambda x, y: x * torch.tanh(y)])
        return steps.Does(code), [source, other]

    def _concatenation(self, source: int):
        value = self._values[source]
        fitting = [
            i for i, v in enumerate(self._values)
            if v.ndim == value.ndim and v.shape[2:] == value.shape[2:]
        ]  # fmt: skip
        others = [self.random.choice(fitting) for _ in range(self.random.choice([1, 1, 2]))]
        return steps.Does(lambda *parts: torch.cat(parts, 1)), [source, *others]

    def _gate(self, source: int):
        return steps.Gate(self.random, self._values[source].shape[1]), [source]

    def _activation(self, source: int):
        return steps.activation(self.random), [source]

    def _normalization(self, source: int):
        value = self._values[source]
        return steps.norm(self.random, value.shape[1], value.ndim == 4), [source]

    def _pooling(self, source: int):
        return steps.pooling(self.random, tuple(self._values[source].shape)), [source]

    def _resampling(self, source: int):
        step = steps.resampling(self.random)
        factor = getattr(step, "scale_factor", None)
        is_empty = factor == (0.75, 1) and self._values[source].shape[2] < 2
        return None if is_empty else (step, [source])

    def _rearrangement(self, source: int):
        return steps.rearrangement(self.random, tuple(self._values[source].shape)), [source]

    def _arithmetic(self, source: int):
        return steps.arithmetic(self.random, tuple(self._values[source].shape)), [source]

    def _summary(self, source: int):
        return steps.summary(self.random), [source]

    def _flattening(self, source: int):
        return steps.flattening(self.random), [source]

    def _softmax(self, source: int):
        return steps.likelihood(self.random), [source]

    def __str__(self) -> str:
        return f"seed {self.seed} ({', '.join(self.traits)})"


_OF_BOTH = (
    Case._activation, Case._normalization, Case._residual, Case._sum_or_product,
    Case._concatenation, Case._rearrangement, Case._arithmetic, Case._softmax,
)  # fmt: skip
_OF_MAPS = (
    *_OF_BOTH, Case._convolution, Case._convolution, Case._convolution, Case._convolution,
    Case._convolution, Case._wide_convolution, Case._residual, Case._gate, Case._pooling,
    Case._pooling, Case._resampling, Case._summary, Case._flattening,
)  # fmt: skip
_OF_VECTORS = (*_OF_BOTH, Case._linear, Case._linear, Case._linear, Case._linear)
