"""What a training step costs on a GPU, and which part of it is BinaryRelax.

Steps are those of the engine, on random images of CIFAR's size, batch 128. Variants of a network
are measured in turns, so that a change of the machine's state meets all of them.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    Hard,
    Quantizer,
    Ternary,
    TernaryThreshold,
    select_weights,
)
from binaryrelax.kernels.fused import FusedRelaxation
from binaryrelax.lab.bench.parq import parq_optimizer
from binaryrelax.lab.data import ImageSet
from binaryrelax.lab.engine import Machine
from binaryrelax.lab.engine.environment import describe_environment
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.models import build_network
from binaryrelax.lab.recipes import Recipe, cifar10_resnet20

NETWORKS = ("resnet20", "vgg16", "resnet18", "resnet34")
VARIANTS = ("float", "binary", "ternary", "ternary-exact")
QUANTIZERS = {"binary": Binary(), "twn": TernaryThreshold(), "ternary-exact": Ternary()}
ROUNDS, STEPS_A_ROUND, WARM_UP = 15, 40, 6
SIDE_BY_SIDE = 4
NUM_IMAGES = 10_000
LONG_ROW = 11_000_000

Say = Callable[[str], None]


def bench_step(say: Say, networks: tuple[str, ...] = NETWORKS) -> dict[str, Any]:
    """All measurements, as the content of ``step.json``; needs a CUDA device."""
    if not torch.cuda.is_available():
        raise ValueError("bench step needs a CUDA device; this machine has none")
    machine = Machine(torch.device("cuda"), precision="bf16")
    data = _random_images().to(machine.device)
    with machine.settings():
        return {
            "environment": describe_environment(machine),
            "batch_size": cifar10_resnet20("float").batch_size,
            "rounds": ROUNDS,
            "steps_a_round": STEPS_A_ROUND,
            "alone": [r for name in networks for r in _measure_network(name, data, machine, say)],
            "side_by_side": _measure_side_by_side(networks[0], data, machine, say),
            "eager": [_measure_eager_step(name, data, say) for name in networks],
            "optimizer_step": _measure_optimizer_step("resnet18", say),
            "long_row": _measure_long_row(say),
        }


def _recipe(network: str, variant: str) -> Recipe:
    """The paper's recipe of a network; all share the settings that cost time."""
    return replace(cifar10_resnet20(variant), name=f"{network}-{variant}", network=network)


def _random_images() -> ImageSet:
    generator = torch.Generator().manual_seed(0)

    def images(count: int) -> tuple[Tensor, Tensor]:
        pixels = torch.randint(0, 256, (count, 32, 32, 3), generator=generator, dtype=torch.uint8)
        return pixels, torch.randint(0, 10, (count,), generator=generator)

    train, test = images(NUM_IMAGES), images(128)
    return ImageSet(
        train_images=train[0],
        train_labels=train[1],
        test_images=test[0],
        test_labels=test[1],
        num_classes=10,
        mean=(0.5, 0.5, 0.5),
        deviation=(0.25, 0.25, 0.25),
    )


class _Steps:
    """Endless training steps of a network, on a stream of its own."""

    def __init__(self, recipe: Recipe, data: ImageSet, machine: Machine, say: Say) -> None:
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.trainer = Trainer(recipe, data, seed=0, machine=machine, note=say)
            self.trainer.start()
        self._steps = self.trainer.steps()

    def take(self, count: int) -> None:
        """Launches that many whole steps; short batches at an epoch's end are left out."""
        with torch.cuda.stream(self.stream):
            for _ in range(count):
                if self.trainer.steps_in_epoch == self.trainer.steps_per_epoch - 1:
                    self.trainer.num_steps += 1
                    self._steps = self.trainer.steps()
                next(self._steps)

    def time(self, count: int) -> float:
        """Milliseconds per step, by the device's clock."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record(self.stream)
        self.take(count)
        end.record(self.stream)
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / count


def _measure_network(
    network: str, data: ImageSet, machine: Machine, say: Say
) -> list[dict[str, Any]]:
    """Milliseconds per step of each variant alone, and the share that BinaryRelax takes."""
    steps, seconds_before = {}, time.perf_counter()
    for variant in VARIANTS:
        steps[variant] = _Steps(_recipe(network, variant), data, machine, say)
        steps[variant].take(WARM_UP)
    torch.cuda.synchronize()
    say(f"{network}: compiled and captured in {time.perf_counter() - seconds_before:.0f} s")
    times = {variant: [] for variant in VARIANTS}
    for _ in range(ROUNDS):
        for variant, taker in steps.items():
            times[variant].append(taker.time(STEPS_A_ROUND))
    medians = {variant: statistics.median(values) for variant, values in times.items()}
    records = []
    for variant in VARIANTS:
        share = (medians[variant] - medians["float"]) / medians[variant]
        say(f"  {variant:14s} {medians[variant]:.3f} ms per step, share {100 * share:.1f} %")
        records.append(
            {
                "network": network,
                "variant": variant,
                "milliseconds": medians[variant],
                "fastest": min(times[variant]),
                "slowest": max(times[variant]),
                "share": share,
            }
        )
    return records


def _measure_side_by_side(
    network: str, data: ImageSet, machine: Machine, say: Say
) -> dict[str, Any]:
    """Milliseconds per step and network with several networks at once, a graph and stream each."""
    variants = ("bwn", "binary", "twn", "ternary")
    takers = [_Steps(_recipe(network, variant), data, machine, say) for variant in variants]
    for taker in takers:
        taker.take(WARM_UP)
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS_A_ROUND):
            for taker in takers:
                taker.take(1)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1000 / STEPS_A_ROUND / len(takers))
    result = statistics.median(times)
    say(f"{network}: {len(takers)} side by side {result:.3f} ms per step and network")
    return {"network": network, "networks": len(takers), "milliseconds": result}


def _measure_eager_step(network: str, data: ImageSet, say: Say) -> dict[str, Any]:
    """Milliseconds per step of plain PyTorch: bf16, channels_last, no graph, no compiling."""
    record: dict[str, Any] = {"network": network}
    for name, make in (("plain", _plain_sgd), ("parq", parq_optimizer)):
        model = build_network(network, 3, 10).cuda().to(memory_format=torch.channels_last)
        try:
            optimizer = make(model, fused=False)
        except ImportError:
            record[f"{name}_milliseconds"] = None
            continue
        step = partial(_eager_step, model, optimizer, data)
        record[f"{name}_milliseconds"] = _host_time(step)
        say(f"{network}: eager, {name} {record[f'{name}_milliseconds']:.2f} ms per step")
    return record


def _plain_sgd(model: nn.Module, *, fused: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.95, weight_decay=1e-4, fused=fused or None
    )


def _eager_step(model: nn.Module, optimizer: torch.optim.Optimizer, data: ImageSet) -> None:
    rows = torch.zeros(128, 4, dtype=torch.int32, device="cuda")
    optimizer.zero_grad()
    images, labels = data.look_up(rows)
    with torch.autocast("cuda", torch.bfloat16):
        scores = model(images)
    nn.functional.cross_entropy(scores.float(), labels).backward()
    optimizer.step()


def _measure_optimizer_step(network: str, say: Say) -> dict[str, Any]:
    """Milliseconds of ``optimizer.step()`` in eager mode: fused SGD, ours around it, PARQ's."""
    measured: dict[str, Any] = {"network": network}
    makers: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
        "fused SGD": partial(_plain_sgd, fused=True)
    }
    for name, quantizer in QUANTIZERS.items():
        makers[f"BinaryRelax {name}"] = partial(_relaxing, quantizer)
    makers["PARQ BinaryRelax"] = partial(parq_optimizer, fused=True)
    steps = {}
    for name, make in makers.items():
        model = build_network(network, 3, 10).cuda()
        for parameter in model.parameters():
            parameter.grad = 1e-3 * torch.randn_like(parameter)
        try:
            steps[name] = make(model).step
        except ImportError:
            measured[name] = None
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(5):
        for name, step in steps.items():
            times[name].append(_host_time(step))
    for name, values in times.items():
        measured[name] = statistics.median(values)
        say(f"optimizer.step() of {name}: {measured[name]:.3f} ms")
    return measured


def _relaxing(quantizer: Quantizer, model: nn.Module) -> torch.optim.Optimizer:
    weights = select_weights(model, quantizer, keep_float=("fc",))
    return BinaryRelax(_plain_sgd(model, fused=True), weights, Hard())


def _host_time(call: Callable[[], Any], count: int = 30) -> float:
    """Milliseconds per call, launching included."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / count


def _measure_long_row(say: Say) -> dict[str, Any]:
    """Milliseconds to relax one tensor of 11 million weights inside a graph, and to sort it."""
    y = torch.randn(LONG_ROW, generator=torch.Generator().manual_seed(0)).cuda()
    x, mix = torch.empty_like(y), torch.tensor(0.7, dtype=torch.float64, device="cuda")
    measured: dict[str, Any] = {"weights": LONG_ROW}
    for name, quantizer in QUANTIZERS.items():
        fused = FusedRelaxation(quantizer, [(x, y)])
        measured[name] = graph_time(lambda fused=fused: fused(mix))
    measured["torch.sort"] = graph_time(lambda: torch.sort(y.abs()))
    measured["copy"] = graph_time(lambda: x.copy_(y))
    for name in (*QUANTIZERS, "torch.sort", "copy"):
        say(f"{LONG_ROW:,} weights, {name}: {measured[name]:.4f} ms")
    return measured


def graph_time(call: Callable[[], Any], calls: int = 5, rounds: int = 30) -> float:
    """Milliseconds per call inside a CUDA graph, the median of several replays."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return statistics.median(times)
