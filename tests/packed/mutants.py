"""Thousands of damaged and forged packed files, and what reading them must give.

A damaged file is refused, or nothing in it has changed. A forged one, with digests that are right,
is refused too, or it is a sound network of the same architecture. Reading never crashes, never
waits for ever, never takes much memory and never changes the model before it refuses.
"""

import copy
import os
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    Certificate,
    PackedFileError,
    PerChannel,
    PerGroup,
    Quantizer,
    Ternary,
    Uniform,
    certify,
    load_packed,
    save_packed,
)
from binaryrelax.packed import PackedLayer
from tests.packed.cases import IMAGES, packed_copy, same_snapshot, seeded, small_network, snapshot
from tests.packed.damage import DAMAGE
from tests.packed.forgery import FORGERY

KINDS = {**DAMAGE, **FORGERY}
FINE = ("refused", "same", "sound")  # other outcomes are failures
SLOW = 5.0  # seconds for one file, far more than any should take


class SmallTied(nn.Module):
    """Ties of every kind: a module with two names, two layers with one weight, a tied embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.again = self.first
        self.decoder, self.embedding = nn.Linear(6, 4, bias=False), nn.Embedding(4, 6)
        self.embedding.weight = self.decoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.again(self.second(self.first(x[:, 0, 0]))))


@dataclass
class Original:
    """A sound packed file, and what reading it gives."""

    content: bytes
    model: nn.Module  # that files are loaded into; never changed
    loaded: dict
    certificate: Certificate
    output_shape: torch.Size

    @staticmethod
    def of(
        make: Callable[[], nn.Module], quantizer: Quantizer, path: Path, **options
    ) -> "Original":
        _, packed = packed_copy(make, quantizer, **options)
        save_packed(packed, path, about={"recipe": "a small one"})
        model = seeded(make, seed=1)
        loaded = load_packed(path, copy.deepcopy(model))
        shape = loaded(IMAGES).shape
        return Original(path.read_bytes(), model, snapshot(loaded), certify(path), shape)


def originals(folder: Path) -> dict[str, Original]:
    """Networks of every kind; ternary ones are stored as trits."""
    path = folder / "original"
    return {
        "binary": Original.of(small_network, Binary(), path),
        "trits": Original.of(small_network, Ternary(granularity=PerChannel()), path),
        "3 bits": Original.of(small_network, Uniform(bits=3, granularity=PerGroup(2)), path),
        "folded": Original.of(small_network, Ternary(), path, fold_batchnorm=True),
        "tied": Original.of(SmallTied, Ternary(), path),
    }


def mutant(kind: str, seed: int, files: dict[str, Original]) -> tuple[Original, bytes]:
    """One file and what it was made from; kind and seed determine it."""
    random = Random(f"{kind} {seed}")
    original, other = random.choice(list(files.values())), random.choice(list(files.values()))
    content = original.content
    while content == original.content:  # some mutations set what is there already
        content = KINDS[kind](random, original.content, other.content)
    return original, content


@torch.no_grad()
def judge(kind: str, original: Original, content: bytes, path: Path) -> str:
    """What reading the file came to: one of ``FINE``, or what went wrong."""
    path.write_bytes(content)
    start = time.monotonic()
    model = original.model
    before = _marks(model)
    certificate, loaded = _read(certify, path), _read(load_packed, path, model)
    if time.monotonic() - start > SLOW:
        return "took too long"
    if isinstance(loaded, nn.Module):
        original.model = seeded_again(original)
    elif _marks(model) != before:
        original.model = seeded_again(original)
        return "model changed by a refused file"
    return _verdict(kind, original, certificate, loaded)


def seeded_again(original: Original) -> nn.Module:
    """A model as it was, in the place of one that was loaded into."""
    make = SmallTied if isinstance(original.model, SmallTied) else small_network
    return seeded(make, seed=1)


def _read(function: Callable, *arguments: object) -> object:
    """What it returns, or a line about the exception."""
    try:
        return function(*arguments)
    except PackedFileError as error:
        text = str(error)
        if "\n" in text or len(text) > 1000:
            return f"error of many lines: {text[:80]!r}"
        if "alloc" in text or "memory" in text.lower():
            return f"too much memory: {text}"
        return "refused"
    except MemoryError:
        return "too much memory"
    except Exception as error:  # whatever it is, it is what the fuzzing looks for
        return f"{function.__name__} crashed: {type(error).__name__}: {error}".partition("\n")[0][
            :200
        ]


def _verdict(kind: str, original: Original, certificate: object, loaded: object) -> str:
    for result in (certificate, loaded):
        if isinstance(result, str) and result != "refused":
            return result
    is_certified = isinstance(certificate, Certificate) and certificate.ok
    if not isinstance(loaded, nn.Module):
        # A forged file may be a sound one of another architecture; a damaged one is never sound.
        return "refused" if kind in FORGERY or not is_certified else "certified, but not loaded"
    if not is_certified:
        return "loaded, but not certified"
    assert isinstance(certificate, Certificate)
    if same_snapshot(snapshot(loaded), original.loaded):
        return "same" if kind in FORGERY or _same(certificate, original) else "certificate changed"
    return (
        _soundness(original, certificate, loaded) if kind in FORGERY else "changed content accepted"
    )


def _same(certificate: Certificate, original: Original) -> bool:
    expected = original.certificate
    return certificate.layers == expected.layers and certificate.about == expected.about


def _soundness(original: Original, certificate: Certificate, loaded: nn.Module) -> str:
    """Whether a forged network is one of the architecture, with weights in Q."""
    layers = {name: m for name, m in loaded.named_modules() if isinstance(m, PackedLayer)}
    if {layer.name for layer in certificate.layers} < set(layers):
        return "loaded layers without certificate"
    if any(layer.packed_weight.problem() for layer in layers.values()):
        return "loaded codes or scales that do not fit"
    if any(layer.distinct_values > len(layer.codebook) for layer in certificate.layers):
        return "certified more values than levels"
    shapes = {n: t.shape for n, t in original.model.state_dict().items()}
    if any(t.shape != shapes.get(n, t.shape) for n, t in loaded.state_dict().items()):
        return "loaded tensors of other shapes"
    try:
        is_right = loaded(IMAGES).shape == original.output_shape
    except Exception as error:  # a network that loads must run
        return f"loaded, but does not run: {type(error).__name__}: {error}"[:200]
    return "sound" if is_right else "loaded, but gives another shape"


def _marks(model: nn.Module) -> list:
    """What changes when anything is written into a model, at little cost."""
    modules = [(n, id(m), m.training) for n, m in model.named_modules(remove_duplicate=False)]
    tensors = [(n, t.data_ptr(), t._version) for n, t in model.state_dict(keep_vars=True).items()]
    return [*modules, *tensors]


@dataclass
class Tally:
    """Outcomes of many mutants."""

    outcomes: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[str] = field(default_factory=list)
    longest_seconds: float = 0.0

    def add(self, kind: str, seed: int, outcome: str, seconds: float) -> None:
        self.outcomes[kind][outcome] += 1
        self.longest_seconds = max(self.longest_seconds, seconds)
        if outcome not in FINE:
            self.failures.append(f"{kind} {seed}: {outcome}")


def fuzz(num_mutants: int, folder: Path, first_seed: int = 0) -> Tally:
    """Reads so many mutants, of all kinds in turn."""
    files, tally, kinds = originals(folder), Tally(), list(KINDS)
    for number in range(num_mutants):
        kind, seed = kinds[number % len(kinds)], first_seed + number // len(kinds)
        original, content = mutant(kind, seed, files)
        start = time.monotonic()
        outcome = judge(kind, original, content, folder / "mutant")
        tally.add(kind, seed, outcome, time.monotonic() - start)
    return tally


def limit_memory(more: int) -> None:
    """Lets this process take so many bytes more of address space, and then no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
