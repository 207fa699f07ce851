"""Where the time of a training step goes, beside the least that each part of it could take."""

import json
import re
import statistics
from collections import defaultdict
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from binaryrelax_lab.data import ImageSet
from binaryrelax_lab.engine import Machine
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.least_step_time import (
    Kind,
    Rates,
    Work,
    count_step,
    least_work,
    measure_rates,
)
from binaryrelax_lab.studies.bench.training_steps import WARM_UP, TrainingSteps, recipe_of

NETWORKS = ("resnet20", "resnet18", "vgg16")
VARIANTS = ("binary", "ternary-exact")
PROFILED_STEPS = 20
ROUNDS, STEPS_A_ROUND = 9, 40
NUM_LONGEST, LONGEST_NAME = 5, 160
WORK_OF_THE_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of the profiler's trace

# The first that is found decides: what torch.compile makes is named after all that it has fused.
_PATTERNS = (
    (Kind.COPIES, re.compile(r"^mem(cpy|set)\b")),
    (Kind.PRODUCTS, re.compile(r"^triton_tem_")),
    (Kind.COMPILED, re.compile(r"^triton_")),
    (Kind.UPDATE, re.compile(r"multi_tensor_apply|fusedsgd")),
    (
        Kind.PRODUCTS,
        re.compile(
            r"cudnn|cutlass|xmma|gemm|gemv|nvjet|wgrad|dgrad|fprop|splitk|convolve|implicit_conv"
            r"|few_channels"
        ),
    ),
)

Event = tuple[str, float]  # the name of what ran on the device, and its microseconds


def profile_steps(
    data: ImageSet, machine: Machine, say: Say, networks: tuple[str, ...] = NETWORKS
) -> dict[str, Any] | None:
    """The profile of each network and variant; None where the profiler is not allowed to look.

    All whole steps are timed before the first is profiled: once it has been used, the profiler may
    slow down whatever the process runs.
    """
    rates = measure_rates()
    say(
        f"this device copies {rates.bytes_per_second / 1e12:.2f} TB/s and multiplies "
        f"{rates.operations_per_second / 1e12:.0f} TFLOP/s"
    )
    pairs = [(network, variant) for network in networks for variant in VARIANTS]
    takers = {pair: TrainingSteps(recipe_of(*pair), data, machine, say) for pair in pairs}
    walls = {pair: _wall_time(taker) for pair, taker in takers.items()}
    records = []
    for (network, variant), taker in takers.items():
        events = _profiled(taker)
        if not events:
            say(f"no profile: the profiler has seen no kernel of {network}-{variant}")
            return None
        work = least_work(count_step(recipe_of(network, variant)))
        parts = breakdown(events, walls[network, variant], work, rates)
        records.append({"network": network, "variant": variant, **parts})
        _say_parts(f"{network}-{variant}", parts, say)
    return {"steps": PROFILED_STEPS, **asdict(rates), "records": records}


def breakdown(
    events: list[Event],
    wall: float,
    work: dict[Kind, Work],
    rates: Rates,
    num_steps: int = PROFILED_STEPS,
) -> dict[str, Any]:
    """Microseconds of a step by kind; what is left of the whole step, ``wall``, is idle.

    Kernels that overlap, or that the profiler has slowed, can add up to more than the step:
    nothing is idle then, and the surplus is noted.
    """
    times = dict.fromkeys(Kind, 0.0)
    others: dict[str, float] = defaultdict(float)
    for name, microseconds in events:
        kind = kind_of(name)
        times[kind] += microseconds / num_steps
        if kind is Kind.OTHER:
            others[name[:LONGEST_NAME]] += microseconds / num_steps
    idle = wall - sum(times.values())
    return {
        "wall_microseconds": wall,
        "kernels": len(events) / num_steps,
        "kinds": [
            {"kind": kind, "microseconds": time, **_floor(work.get(kind), rates)}
            for kind, time in times.items()
        ],
        "idle_microseconds": max(idle, 0.0),
        "surplus_microseconds": max(-idle, 0.0),
        "longest_others": [
            {"name": name, "microseconds": others[name]}
            for name in sorted(others, key=others.__getitem__, reverse=True)[:NUM_LONGEST]
        ],
    }


def kind_of(name: str) -> Kind:
    """The part of the step that a kernel, copy or memset of this name belongs to."""
    if name in relaxation_kernels():
        return Kind.UPDATE
    found = (kind for kind, pattern in _PATTERNS if pattern.search(name.lower()))
    return next(found, Kind.OTHER)


@cache
def relaxation_kernels() -> frozenset[str]:
    """The names of all Triton functions of the library; its kernels are among them."""
    package = import_module("binaryrelax.kernels")
    modules = [
        import_module(f"{package.__name__}.{found.name}")
        for found in iter_modules(package.__path__)
    ]
    functions = [value for module in modules for value in vars(module).values()]
    return frozenset(f.__name__ for f in functions if hasattr(f, "arg_names"))


def read_events(trace: Path) -> list[Event]:
    """All that ran on the device, from a file that the profiler has exported."""
    events = json.loads(trace.read_text())["traceEvents"]
    return [(e["name"], e["dur"]) for e in events if e.get("cat") in WORK_OF_THE_DEVICE]


def _floor(work: Work | None, rates: Rates) -> dict[str, float | None]:
    if work is None:
        return {"bytes": None, "operations": None, "floor_microseconds": None}
    return {**asdict(work), "floor_microseconds": work.microseconds(rates)}


def _wall_time(taker: TrainingSteps) -> float:
    """Microseconds per step, by the device's clock."""
    taker.take(WARM_UP)
    return 1000 * statistics.median(taker.time(STEPS_A_ROUND) for _ in range(ROUNDS))


def _profiled(taker: TrainingSteps) -> list[Event]:
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        taker.take(PROFILED_STEPS)
        torch.cuda.synchronize()
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        return read_events(trace)


def _say_parts(name: str, parts: dict[str, Any], say: Say) -> None:
    say(f"{name}: {parts['wall_microseconds']:.0f} µs per step, {parts['kernels']:.1f} kernels")
    for part in parts["kinds"]:
        floor = part["floor_microseconds"]
        beside = "" if floor is None else f", at least {floor:.1f}"
        say(f"  {part['kind']:40s} {part['microseconds']:8.1f} µs{beside}")
    say(f"  {'idle between kernels':40s} {parts['idle_microseconds']:8.1f} µs")
    if parts["surplus_microseconds"]:
        say(f"  the kernels add up to {parts['surplus_microseconds']:.1f} µs more than the step")
