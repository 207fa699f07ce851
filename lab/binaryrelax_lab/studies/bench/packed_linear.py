"""Part (a): Linear layers, many in turn so that no weight is in a cache."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from binaryrelax import Binary, PackedLinear, Quantizer, pack, select_weights
from binaryrelax.packed.engines import native
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.packed_effort import SETS, Effort, bound, told
from binaryrelax_lab.studies.bench.rivals import Run, float_rivals, packed_rivals
from binaryrelax_lab.studies.bench.timing import interleaved_apart


class InTurn(nn.Module):
    """Layers applied to the same input: no weight is in a cache when its turn comes.

    Each is the one before with its rows moved by one: equal weights would be stored once by some.
    """

    def __init__(self, layer: PackedLinear | nn.Linear, count: int) -> None:
        super().__init__()
        copies = [copy.deepcopy(layer) for _ in range(count)]
        for number, other in enumerate(copies):
            rows = other.codes if isinstance(other, PackedLinear) else other.weight
            rows.data = rows.data.roll(number, 0)
        self.layers = nn.ModuleList(copies)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


def measure_linear(say: Say, effort: Effort) -> Iterator[dict[str, Any]]:
    """Part (a): one record per shape, batch and engine."""
    for outputs, inputs in effort.linear:
        sides = _linear_sides(outputs, inputs, effort)
        for batch in effort.batches:
            x = torch.randn(batch, inputs, generator=torch.Generator().manual_seed(1))
            calls = {name: bound(side.run, x) for name, side in sides.items()}
            errors = {name: side.error(x) for name, side in sides.items()}
            seconds = interleaved_apart(calls, effort.repetitions)
            for name, side in sides.items():
                record = {
                    "outputs": outputs,
                    "inputs": inputs,
                    "batch": batch,
                    "engine": name,
                    "seconds": seconds[name] / side.count,
                    "error": errors[name],
                }
                say(f"  {outputs}x{inputs} batch {batch}: {told(record)}")
                yield record
        sides.clear()  # before the next ones are made: together they take gigabytes


@dataclass(frozen=True)
class _Side:
    """One way to compute `count` layers, and the weight of the first to check it with."""

    run: Run
    count: int
    weight: Tensor

    def error(self, x: Tensor) -> float:
        """Of the first layer's output, relative to float64 in the Euclidean norm."""
        exact = x.double() @ self.weight.double().T
        found = torch.as_tensor(self.run(x)[0]).double()
        return float((found - exact).norm() / exact.norm())


def _linear_sides(outputs: int, inputs: int, effort: Effort) -> dict[str, _Side]:
    weights, layer = outputs * inputs, _linear(outputs, inputs)
    floats = InTurn(layer, _copies(4 * weights, effort))
    half = copy.deepcopy(layer).bfloat16()
    halves = InTurn(half, _copies(2 * weights, effort))
    sides = {
        "torch float32": _Side(floats, len(floats.layers), layer.weight),
        "torch bfloat16": _Side(
            lambda x: halves(x.bfloat16()), len(halves.layers), half.weight.float()
        ),
    }
    x = torch.zeros(2, inputs)
    if effort.rivals:
        for name, run in float_rivals(floats, x).items():
            sides[f"{name} float32"] = _Side(run, len(floats.layers), layer.weight)
    for title, quantizer in SETS.items():
        count = _copies(weights * quantizer.bits // 8, effort)
        packed = _packed_linear(layer, quantizer)
        for mode, run in _kernels_in_turn(packed, count).items():
            sides[f"{title}, {mode}"] = _Side(run, count, packed.weight)
        if effort.rivals and title == "2 bits":
            for name, run in packed_rivals(InTurn(packed, count), x).items():
                sides[f"{name} 2 bits"] = _Side(run, count, packed.weight)
    return sides


def _kernels_in_turn(packed: PackedLinear, count: int) -> dict[str, Run]:
    """The C++ kernels by themselves, as the other run times have no Python between layers either.

    What a PyTorch layer around them adds is measured apart; without them, torch unpacks.
    """
    module = native()
    if module is None:
        return {"exact": InTurn(packed, count)}
    form, threads = packed.format, torch.get_num_threads()
    codes, scale = packed.codes.numpy(), packed.scale.numpy()
    matrices = [module.PackedMatrix(codes, scale, form.row_length, form.bits) for _ in range(count)]

    def run(x: Tensor, *, fast: bool) -> list[np.ndarray]:
        outputs = []
        for matrix in matrices:
            y = np.empty((len(x), form.num_rows), np.float32)
            matrix.multiply(x.numpy(), y, None, fast, threads)
            outputs.append(y)
        return outputs

    return {"exact": partial(run, fast=False), "fast": partial(run, fast=True)}


def measure_call() -> float:
    """Seconds that a call of a packed layer takes around the kernel: a tiny one, nothing to do."""
    layer = _packed_linear(_linear(16, 16), Binary())
    x = torch.zeros(1, 16)
    return interleaved_apart({"call": bound(layer, x)}, 3)["call"]


def _linear(outputs: int, inputs: int) -> nn.Linear:
    with torch.random.fork_rng(), torch.inference_mode(False):
        torch.manual_seed(0)
        return nn.Linear(inputs, outputs, bias=False).eval()


def _packed_linear(layer: nn.Linear, quantizer: Quantizer) -> PackedLinear:
    with torch.inference_mode(False):
        model = nn.Sequential(copy.deepcopy(layer))
        weights = select_weights(model, quantizer)
        for weight in weights:
            weight.data = quantizer.project(weight.data)
        pack(model, weights)
        packed = model[0]
        assert isinstance(packed, PackedLinear)
        return packed


def _copies(num_bytes: int, effort: Effort) -> int:
    return max(1, math.ceil(effort.bytes_in_turn / num_bytes))
