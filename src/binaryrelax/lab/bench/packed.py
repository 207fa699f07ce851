"""Packed networks on a CPU: time beside float and beside other run times, error, files, memory.

(a) Linear layers at batch 1 and 64, many copies in turn so that no weight is in a cache
(b) the convolutions of ResNet-18, one after the other, at batch 1
(c) ResNet-18 as a whole at batch 1
(d) files: packed against float32
(e) peak memory: loading and running

ONNX Runtime and OpenVINO run what `binaryrelax.packed.export` has written, and take part where they
are installed: pip install 'binaryrelax[onnx,openvino]'.
"""

import copy
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    PackedLinear,
    Quantizer,
    Ternary,
    pack,
    save_packed,
    select_weights,
    set_kernel_threads,
    set_mode,
)
from binaryrelax.lab.bench.packed_memory import measure_memory
from binaryrelax.lab.bench.packed_rivals import float_rivals, packed_rivals
from binaryrelax.lab.bench.timing import Say, describe_cpu, interleaved_apart
from binaryrelax.lab.models import build_network
from binaryrelax.packed.engines import native

SETS: dict[str, Quantizer] = {"1 bit": Binary(), "2 bits": Ternary()}
Run = Callable[[Tensor], Any]
MODES = ("exact", "fast")
# torch's bfloat16 products use AMX where a CPU claims to have it, and die of an illegal instruction
# on virtual machines that do not let it through.
WITHOUT_AMX = ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
OUT_OF_CACHE = 400 << 20  # bytes; more than the last-level cache of the machines at hand


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured; times are the least over the repetitions."""

    linear: tuple[tuple[int, int], ...] = ((4096, 4096), (4096, 11008))  # outputs, inputs
    batches: tuple[int, ...] = (1, 64)
    repetitions: int = 7
    bytes_in_turn: int = OUT_OF_CACHE
    threads: int = 2
    memory_layers: int = 8
    memory_width: int = 4096
    rivals: bool = True


class InTurn(nn.Module):
    """Layers applied to the same input: no weight is in a cache when its turn comes.

    Each is the one before with its rows moved by one: equal weights would be stored once by some.
    """

    def __init__(self, layer: nn.Module, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(count))
        for number, other in enumerate(self.layers):
            rows = other.codes if isinstance(other, PackedLinear) else other.weight
            rows.data = rows.data.roll(number, 0)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


def bench_packed(say: Say, effort: Effort | None = None) -> dict[str, Any]:
    """All measurements, as the content of ``packed.json``."""
    effort = effort or Effort()
    os.environ.setdefault(*WITHOUT_AMX)
    before = torch.get_num_threads()
    torch.set_num_threads(effort.threads)
    module = native()
    report: dict[str, Any] = {
        "machine": describe_cpu(),
        "native": None if module is None else module.instruction_sets()[-1],
        "repetitions": effort.repetitions,
    }
    say(f"machine: {report['machine']}, native kernels: {report['native']}")
    try:
        with torch.inference_mode():
            report["layer_call_seconds"] = _measure_call()
            report["linear"] = list(_measure_linear(say, effort))
            report["convolutions"] = _measure_convolutions(say, effort)
            report["network"] = _measure_network(say, effort)
            report["files"] = _measure_files()
        report["memory"] = measure_memory(effort.memory_layers, effort.memory_width)
    finally:
        torch.set_num_threads(before)
    for part in ("files", "memory"):
        for record in report[part]:
            say(f"  {part}: " + "  ".join(f"{k} {v}" for k, v in record.items()))
    return report


def _measure_linear(say: Say, effort: Effort) -> Iterator[dict[str, Any]]:
    """Part (a): one record per shape, batch and engine."""
    for outputs, inputs in effort.linear:
        sides = _linear_sides(outputs, inputs, effort)
        for batch in effort.batches:
            x = torch.randn(batch, inputs, generator=torch.Generator().manual_seed(1))
            calls = {name: _bound(side.run, x) for name, side in sides.items()}
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
                say(f"  {outputs}x{inputs} batch {batch}: {_told(record)}")
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
    halves = InTurn(copy.deepcopy(layer).bfloat16(), _copies(2 * weights, effort))
    rounded = halves.layers[0].weight.float()
    sides = {
        "torch float32": _Side(floats, len(floats.layers), layer.weight),
        "torch bfloat16": _Side(lambda x: halves(x.bfloat16()), len(halves.layers), rounded),
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


def _measure_call() -> float:
    """Seconds that a call of a packed layer takes around the kernel: a tiny one, nothing to do."""
    layer = _packed_linear(_linear(16, 16), Binary())
    x = torch.zeros(1, 16)
    return interleaved_apart({"call": _bound(layer, x)}, 3)["call"]


def _measure_convolutions(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (b): the sum over ResNet-18's convolutions, each with an input of its own."""
    sides: dict[str, Callable[[], Any]] = {}
    floats = _convolutions(_resnet())
    sides["torch float32, channels_last"] = _bound(_run_all, floats)
    for title, quantizer in SETS.items():
        for mode in MODES:
            packed = _convolutions(_packed_resnet(quantizer, fold=False))
            for layer, _ in packed:
                layer.mode = mode
            sides[f"{title}, {mode}"] = _bound(_run_all, packed)
    seconds = interleaved_apart(sides, effort.repetitions)
    records = [{"engine": name, "seconds": seconds[name]} for name in sides]
    for record in records:
        say(f"  convolutions of ResNet-18: {_told(record)}")
    return records


def _measure_network(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (c): one record per engine; errors are against the float network in float64."""
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    records = []
    for title, quantizer in SETS.items():
        float_network = _resnet(quantizer)
        exact = float_network.double()(x.double())
        float_network = float_network.float()
        last = x.contiguous(memory_format=torch.channels_last)
        sides = {"torch float32, channels_last": _bound(float_network, last)}
        packed = _packed_resnet(quantizer, fold=True)
        for mode in MODES:
            sides[f"packed, {mode}"] = _bound(_kernels_alone(_in_mode(packed, mode), effort), last)
        if effort.rivals:
            for name, run in float_rivals(float_network, torch.cat([x, x])).items():
                sides[f"{name} float32"] = _bound(run, x)
        errors = {name: _error_of(call(), exact) for name, call in sides.items()}
        seconds = interleaved_apart(sides, effort.repetitions)
        for name in sides:
            record = {
                "weights": title,
                "engine": name,
                "seconds": seconds[name],
                "error": errors[name],
            }
            say(f"  ResNet-18, {title}: {_told(record)}")
            records.append(record)
    return records


def _measure_files() -> list[dict[str, Any]]:
    """Part (d): bytes of ResNet-18's files."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        state = {name: tensor.contiguous() for name, tensor in _resnet().state_dict().items()}
        save_file(state, path)
        in_float = path.stat().st_size
        records.append({"file": "float32", "bytes": in_float, "times_smaller": 1.0})
        for title, quantizer in SETS.items():
            for fold in (False, True):
                save_packed(_packed_resnet(quantizer, fold=fold), path)
                size = path.stat().st_size
                name = f"{title}{', batch normalization folded' if fold else ''}"
                records.append({"file": name, "bytes": size, "times_smaller": in_float / size})
    return records


def _resnet(quantizer: Quantizer | None = None) -> nn.Module:
    """ResNet-18 for CIFAR in channels_last, the same in every run; its weights in Q if given."""
    with torch.random.fork_rng(), torch.inference_mode(False):
        torch.manual_seed(0)
        model = build_network("resnet18", 3, 10)
        for norm in model.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.weight.data.uniform_(-0.5, 1.5)  # some negative, as training makes them
                norm.bias.data.normal_(0, 0.1)
                norm.running_mean.normal_(0, 0.1)
                norm.running_var.uniform_(0.5, 1.5)
        if quantizer is not None:
            for weight in select_weights(model, quantizer, keep_float=("fc",)):
                weight.data = quantizer.project(weight.data)
        return model.eval().to(memory_format=torch.channels_last)


def _packed_resnet(quantizer: Quantizer, *, fold: bool) -> nn.Module:
    model = _resnet(quantizer)
    weights = select_weights(model, quantizer, keep_float=("fc",))
    return pack(model, weights, fold_batchnorm=fold)


def _convolutions(model: nn.Module) -> list[tuple[nn.Module, Tensor]]:
    """The convolutions of a network with what reaches them at batch 1."""
    found: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        module.register_forward_pre_hook(lambda layer, inputs: found.append((layer, inputs[0])))
        for module in model.modules()
        if hasattr(module, "kernel_size") and hasattr(module, "out_channels")
    ]
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    model(image.contiguous(memory_format=torch.channels_last))
    for hook in hooks:
        hook.remove()
    return found


def _run_all(layers: list[tuple[nn.Module, Tensor]]) -> None:
    for layer, x in layers:
        layer(x)


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
        return pack(model, weights)[0]


def _copies(num_bytes: int, effort: Effort) -> int:
    return max(1, math.ceil(effort.bytes_in_turn / num_bytes))


def _in_mode(model: nn.Module, mode: str) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Any:
        set_mode(model, mode)
        return model(x)

    return run


def _kernels_alone(run: Callable[[Tensor], Any], effort: Effort) -> Callable[[Tensor], Any]:
    """With all threads for the kernels and one for torch, as `set_kernel_threads` advises."""

    def with_threads(x: Tensor) -> Any:
        set_kernel_threads(effort.threads)
        torch.set_num_threads(1)
        result = run(x)
        torch.set_num_threads(effort.threads)
        return result

    return with_threads


def _bound(run: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    return lambda: run(x)


def _error_of(found: Any, exact: Tensor) -> float:
    first = found[0] if isinstance(found, list | tuple) else found
    difference = torch.as_tensor(first).double().reshape(exact.shape) - exact
    return float(difference.norm() / exact.norm())


def _told(record: dict[str, Any]) -> str:
    error = f", error {record['error']:.1e}" if "error" in record else ""
    return f"{record['engine']:<30} {1e6 * record['seconds']:10.1f} us{error}"
