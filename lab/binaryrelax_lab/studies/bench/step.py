"""What a training step costs on a GPU, and which part of it is BinaryRelax.

Steps are those of the engine, on random images of CIFAR's size, batch 128. Variants of a network
are measured in turns, so that a change of the machine's state meets all of them.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    Hard,
    Quantizer,
    Ternary,
    TernaryThreshold,
    select_weights,
)
from binaryrelax.kernels.fused_relaxation import FusedRelaxation
from binaryrelax_lab.data import ImageSet
from binaryrelax_lab.engine import Machine
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.models import build_network
from binaryrelax_lab.recipes import cifar10_resnet20
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.rivals import parq_optimizer
from binaryrelax_lab.studies.bench.step_profile import NETWORKS as PROFILED_NETWORKS, profile_steps
from binaryrelax_lab.studies.bench.timing import gpu_machine, graph_time, in_turns, medians
from binaryrelax_lab.studies.bench.training_steps import (
    WARM_UP,
    TrainingSteps,
    random_images,
    recipe_of,
    time_side_by_side,
)

NETWORKS = ("resnet20", "vgg16", "resnet18", "resnet34")
VARIANTS = ("float", "binary", "ternary", "ternary-exact")
QUANTIZERS = {"binary": Binary(), "twn": TernaryThreshold(), "ternary-exact": Ternary()}
ROUNDS, STEPS_A_ROUND = 15, 40
LONG_ROW = 11_000_000


def bench_step(say: Say, networks: tuple[str, ...] = NETWORKS) -> dict[str, Any]:
    """All measurements, as the content of ``step.json``; needs a CUDA device."""
    machine = gpu_machine("step")
    data = random_images().to(machine.device)
    profiled = tuple(name for name in PROFILED_NETWORKS if name in networks)
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
            "profile": profile_steps(data, machine, say, profiled),
        }


def _measure_network(
    network: str, data: ImageSet, machine: Machine, say: Say
) -> list[dict[str, Any]]:
    """Milliseconds per step of each variant alone, and the share that BinaryRelax takes."""
    steps, seconds_before = {}, time.perf_counter()
    for variant in VARIANTS:
        steps[variant] = TrainingSteps(recipe_of(network, variant), data, machine, say)
        steps[variant].take(WARM_UP)
    torch.cuda.synchronize()
    say(f"{network}: compiled and captured in {time.perf_counter() - seconds_before:.0f} s")
    times = in_turns(
        {variant: partial(taker.time, STEPS_A_ROUND) for variant, taker in steps.items()}, ROUNDS
    )
    typical = medians(times)
    records = []
    for variant in VARIANTS:
        share = (typical[variant] - typical["float"]) / typical[variant]
        say(f"  {variant:14s} {typical[variant]:.3f} ms per step, share {100 * share:.1f} %")
        records.append(
            {
                "network": network,
                "variant": variant,
                "milliseconds": typical[variant],
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
    takers = [
        TrainingSteps(recipe_of(network, variant), data, machine, say) for variant in variants
    ]
    for taker in takers:
        taker.take(WARM_UP)
    result = statistics.median(time_side_by_side(takers, STEPS_A_ROUND) for _ in range(ROUNDS))
    say(f"{network}: {len(takers)} side by side {result:.3f} ms per step and network")
    return {"network": network, "networks": len(takers), "milliseconds": result}


def _measure_eager_step(network: str, data: ImageSet, say: Say) -> dict[str, Any]:
    """Milliseconds per step of plain PyTorch: bf16, channels_last, no graph, no compiling."""
    record: dict[str, Any] = {"network": network}
    for name, make in (("plain", _plain_sgd), ("parq", parq_optimizer)):
        model = build_network(network, 3, 10).cuda()
        nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last)
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
            # Small beside the weights, as in training: repeated, they must not carry them away.
            parameter.grad = 1e-4 * parameter.detach().abs().mean() * torch.randn_like(parameter)
        try:
            steps[name] = make(model).step
        except ImportError:
            measured[name] = None
    times = in_turns({name: partial(_host_time, step) for name, step in steps.items()}, ROUNDS)
    for name, milliseconds in medians(times).items():
        measured[name] = milliseconds
        say(f"optimizer.step() of {name}: {milliseconds:.3f} ms")
    return measured


def _relaxing(quantizer: Quantizer, model: nn.Module) -> torch.optim.Optimizer:
    weights = select_weights(model, quantizer, keep_float=("fc",))
    return BinaryRelax(_plain_sgd(model, fused=True), weights, Hard())


def _host_time(call: Callable[[], object], count: int = 30) -> float:
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
        measured[name] = graph_time(partial(fused, mix))
    measured["torch.sort"] = graph_time(lambda: torch.sort(y.abs()))
    measured["copy"] = graph_time(lambda: x.copy_(y))
    for name in (*QUANTIZERS, "torch.sort", "copy"):
        say(f"{LONG_ROW:,} weights, {name}: {measured[name]:.4f} ms")
    return measured
