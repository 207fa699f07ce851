"""Packed networks on a CPU: time beside float and beside other run times, error, files, memory.

(a) Linear layers at batch 1 and 64, many copies in turn so that no weight is in a cache
(b) the convolutions of ResNet-18, one after the other, at batch 1
(c) ResNet-18 as a whole at batch 1
(d) ResNet-18 and ResNet-20 with all settings as they come, at batch 1 and 16
(e) files: packed against float32
(f) peak memory: loading and running

ONNX Runtime and OpenVINO run what `binaryrelax.export` has written, and take part where they
are installed: pip install '.[onnx,openvino]' in the source folder.
"""

import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from binaryrelax import (
    Quantizer,
    pack,
    save_packed,
    select_weights,
    set_kernel_threads,
    set_mode,
)
from binaryrelax.packed.engines import native
from binaryrelax_lab.engine.bf16_on_cpu import make_bf16_safe
from binaryrelax_lab.models import build_network
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.packed_effort import MODES, SETS, Effort, Mode, bound, told
from binaryrelax_lab.studies.bench.packed_linear import measure_call, measure_linear
from binaryrelax_lab.studies.bench.packed_memory import measure_memory
from binaryrelax_lab.studies.bench.rivals import Run, float_rivals
from binaryrelax_lab.studies.bench.timing import describe_cpu, interleaved_apart

NETWORKS = ("resnet18", "resnet20")
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def bench_packed(say: Say, effort: Effort | None = None) -> dict[str, Any]:
    """All measurements, as the content of ``packed.json``."""
    effort = effort or Effort()
    make_bf16_safe()  # torch's bfloat16 layers are measured too
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
            report["layer_call_seconds"] = measure_call()
            report["linear"] = list(measure_linear(say, effort))
            report["convolutions"] = measure_convolutions(say, effort)
            report["network"] = measure_network(say, effort)
            report["as_it_comes"] = measure_as_it_comes(say, effort)
            report["files"] = measure_files()
        report["memory"] = measure_memory(effort.memory_layers, effort.memory_width)
    finally:
        torch.set_num_threads(before)
    for part in ("files", "memory"):
        for record in report[part]:
            say(f"  {part}: " + "  ".join(f"{k} {v}" for k, v in record.items()))
    return report


def measure_convolutions(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (b): the sum over ResNet-18's convolutions, each with an input of its own."""
    sides: dict[str, Callable[[], Any]] = {}
    floats = _convolutions(_network())
    sides["torch float32, channels_last"] = bound(_run_all, floats)
    for title, quantizer in SETS.items():
        for mode in MODES:
            packed = _packed(quantizer, fold=False)
            set_mode(packed, mode)
            sides[f"{title}, {mode}"] = bound(_run_all, _convolutions(packed))
    seconds = interleaved_apart(sides, effort.repetitions)
    records = [{"engine": name, "seconds": seconds[name]} for name in sides]
    for record in records:
        say(f"  convolutions of ResNet-18: {told(record)}")
    return records


def measure_network(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (c): one record per engine; errors are against the float network in float64."""
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    records = []
    for title, quantizer in SETS.items():
        float_network = _network(quantizer)
        exact = float_network.double()(x.double())
        float_network = float_network.float()
        last = x.contiguous(memory_format=torch.channels_last)
        sides = {"torch float32, channels_last": bound(float_network, last)}
        packed = _packed(quantizer, fold=True)
        for mode in MODES:
            alone = kernels_alone(in_mode(packed, mode), effort.threads)
            sides[f"packed, {mode}"] = bound(alone, last)
        if effort.rivals:
            for name, run in float_rivals(float_network, torch.cat([x, x])).items():
                sides[f"{name} float32"] = bound(run, x)
        errors = {name: error_of(call(), exact) for name, call in sides.items()}
        seconds = interleaved_apart(sides, effort.repetitions)
        for name in sides:
            record = {
                "weights": title,
                "engine": name,
                "seconds": seconds[name],
                "error": errors[name],
            }
            say(f"  ResNet-18, {title}: {told(record)}")
            records.append(record)
    return records


def measure_as_it_comes(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (d): whole networks with no setting touched: nothing folded, torch's own threads."""
    records = []
    cases = product(NETWORKS, effort.images, LAYOUTS, SETS)
    for network, batch, layout, title in cases:
        images = torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(2))
        x = images.contiguous(memory_format=LAYOUTS[layout])
        floats = _network(SETS[title], network)
        nn.utils.convert_conv2d_weight_memory_format(floats, LAYOUTS[layout])
        packed = _packed(SETS[title], network, fold=False)
        sides = {"torch float32": bound(floats, x)}
        sides |= {f"packed, {mode}": bound(in_mode(packed, mode), x) for mode in MODES}
        seconds = interleaved_apart(sides, effort.repetitions)
        case = {"network": network, "batch": batch, "images": layout, "weights": title}
        for name in sides:
            records.append({**case, "engine": name, "seconds": seconds[name]})
            say(f"  {network}, batch {batch}, {layout}, {title}: {told(records[-1])}")
    return records


def measure_files() -> list[dict[str, Any]]:
    """Part (e): bytes of ResNet-18's files."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        state = {name: tensor.contiguous() for name, tensor in _network().state_dict().items()}
        save_file(state, path)
        in_float = path.stat().st_size
        records.append({"file": "float32", "bytes": in_float, "times_smaller": 1.0})
        for title, quantizer in SETS.items():
            for fold in (False, True):
                save_packed(_packed(quantizer, fold=fold), path)
                size = path.stat().st_size
                name = f"{title}{', batch normalization folded' if fold else ''}"
                records.append({"file": name, "bytes": size, "times_smaller": in_float / size})
    return records


def _network(quantizer: Quantizer | None = None, name: str = "resnet18") -> nn.Module:
    """A network for CIFAR in channels_last, the same in every run; its weights in Q if given."""
    with torch.random.fork_rng(), torch.inference_mode(False):
        torch.manual_seed(0)
        model = build_network(name, 3, 10)
        for norm in model.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.weight.data.uniform_(-0.5, 1.5)  # some negative, as training makes them
                norm.bias.data.normal_(0, 0.1)
                assert norm.running_mean is not None and norm.running_var is not None
                norm.running_mean.normal_(0, 0.1)
                norm.running_var.uniform_(0.5, 1.5)
        if quantizer is not None:
            for weight in select_weights(model, quantizer, keep_float=("fc",)):
                weight.data = quantizer.project(weight.data)
        return nn.utils.convert_conv2d_weight_memory_format(model.eval(), torch.channels_last)


def _packed(quantizer: Quantizer, name: str = "resnet18", *, fold: bool) -> nn.Module:
    model = _network(quantizer, name)
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


def in_mode(model: nn.Module, mode: Mode) -> Run:
    """The packed model, exact or fast whenever it runs."""

    def run(x: Tensor) -> Any:
        set_mode(model, mode)
        return model(x)

    return run


def kernels_alone(run: Run, num_threads: int) -> Run:
    """With all threads for the kernels and one for torch, as `set_kernel_threads` advises."""

    def with_threads(x: Tensor) -> Any:
        set_kernel_threads(num_threads)
        torch.set_num_threads(1)
        try:
            return run(x)
        finally:
            torch.set_num_threads(num_threads)
            set_kernel_threads(None)

    return with_threads


def error_of(found: Any, exact: Tensor) -> float:
    """Of an engine's output, relative in the Euclidean norm."""
    first = found[0] if isinstance(found, list | tuple) else found
    difference = torch.as_tensor(first).double().reshape(exact.shape) - exact
    return float(difference.norm() / exact.norm())
