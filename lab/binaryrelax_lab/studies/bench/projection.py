"""Time, error and memory of the projections.

(a) exact ternary against torch.sort, TWN's threshold and torchao's LSBQuantizer
(b) exact b-bit against Lloyd's algorithm after 1, 5, 20 and 100 iterations
(c) the bracketed sweep against the full sweep, its reference; each in a process of its own,
    ``python -m binaryrelax_lab.studies.bench.projection SWEEP BITS SIZE``, for its peak memory

torchao is needed for its rows only: pip install --no-deps torchao==0.18.0
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from binaryrelax import OneStepLloyd, Quantizer, Ternary, TernaryThreshold, Uniform
from binaryrelax.quantizers.assignment import best_scale, nearest_levels
from binaryrelax.quantizers.sweep import bracketed_sweep, full_sweep
from binaryrelax_lab.language.requirements import quiet_torchao
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.own_process import answer, in_own_process, memory_megabytes
from binaryrelax_lab.studies.bench.rivals import lsbq_methods
from binaryrelax_lab.studies.bench.timing import (
    describe_cpu,
    interleaved,
    normal_weights,
    timed,
)

LLOYD_ITERATIONS = (1, 5, 20, 100)
MOST_SECONDS = 60  # a method that would take longer at ten times the size is not run there
SWEEPS = {"bracketed": bracketed_sweep, "full": full_sweep}
TITLES = {
    "ternary": "(a) Ternary, normal weights: relative squared error and time",
    "lloyd": "(b) b-bit, normal weights: excess over the optimum and time",
    "sweep": "(c) Bracketed and full sweep: time and peak extra memory",
}
Method = Callable[[Tensor], Tensor | None]
Projection = Callable[[Tensor], Tensor]
Case = tuple[str, int, int]  # name, bits, number of weights


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured; times are medians over the repetitions."""

    ternary_sizes: tuple[int, ...] = (10**5, 10**6, 10**7, 11 * 10**6)
    lloyd_size: int = 10**6
    sweep_sizes: tuple[int, ...] = (10**5, 10**6)
    bracketed_sizes: tuple[int, ...] = (10**7,)  # too many breakpoints for the full sweep
    bits: tuple[int, ...] = (3, 4, 8)
    repetitions: int = 5


def bench_projection(say: Say, effort: Effort | None = None) -> dict[str, Any]:
    """All measurements, as the content of ``projection.json``."""
    effort = effort or Effort()
    report: dict[str, Any] = {"machine": describe_cpu(), "repetitions": effort.repetitions}
    say(f"machine: {report['machine']}")
    with quiet_torchao():
        report["ternary"] = _measure_ternary(say, effort)
    report["lloyd"] = _measure_lloyd(say, effort)
    report["sweep"] = _measure_sweeps(say, effort)
    for part, title in TITLES.items():
        say(f"\n{title}")
        for record in report[part]:
            say("  " + "  ".join(_cell(key, value) for key, value in record.items()))
    return report


def _measure_ternary(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (a): one record per size and method."""
    methods: dict[str, Method] = {
        "Ternary (exact)": Ternary().project,
        "torch.sort alone": _only_sort,
        "TernaryThreshold (TWN)": TernaryThreshold().project,
        **lsbq_methods(say),
    }
    records: list[dict[str, Any]] = []
    too_slow: dict[str, str] = {}
    for size in effort.ternary_sizes:
        w = normal_weights(size)
        records += [{"size": size, "method": name, "note": why} for name, why in too_slow.items()]
        calls = {name: partial(methods[name], w) for name in methods if name not in too_slow}
        errors = {}
        for name, call in calls.items():
            say(f"(a) {size:,} weights: {name}")
            projected, duration = timed(call)
            errors[name] = None if projected is None else _relative_error(w, projected)
            if 10 * duration > MOST_SECONDS:
                too_slow[name] = f"not run ({duration:.1f} s at {size:,})"
        for name, median in interleaved(calls, effort.repetitions).items():
            records.append({"size": size, "method": name, "seconds": median, "error": errors[name]})
    return records


def _only_sort(w: Tensor) -> None:
    """What any method that sorts must at least do."""
    w.abs().sort(descending=True)


def _relative_error(w: Tensor, projected: Tensor) -> float:
    """||w - projected||^2 / ||w||^2, in float64."""
    residual = w.double() - projected.double()
    return float(residual.square().sum() / w.double().square().sum())


def _measure_lloyd(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (b): one record per bit-width and method."""
    w = normal_weights(effort.lloyd_size)
    records: list[dict[str, Any]] = []
    for bits in effort.bits:
        say(f"(b) {bits} bits, {effort.lloyd_size:,} weights")
        methods: dict[str, Projection] = {
            "Uniform (exact)": Uniform(bits=bits).project,
            "OneStepLloyd": OneStepLloyd(bits=bits).project,
        }
        for count in LLOYD_ITERATIONS:
            methods[f"Lloyd x{count}"] = iterated_lloyd(Uniform(bits=bits), count)
        calls = {name: partial(method, w) for name, method in methods.items()}
        medians = interleaved(calls, effort.repetitions)
        errors = {name: _relative_error(w, call()) for name, call in calls.items()}
        optimum = errors["Uniform (exact)"]
        records += [
            {
                "bits": bits,
                "method": name,
                "seconds": medians[name],
                "error": errors[name],
                "excess": errors[name] / optimum - 1,
            }
            for name in methods
        ]
    return records


def iterated_lloyd(quantizer: Quantizer, iterations: int) -> Projection:
    """Section 2.1 iterated: nearest levels and least-squares scale in turn, from max|y| / q_m."""
    levels = torch.tensor([q for q in quantizer.codebook if q >= 0], dtype=torch.float64)

    def project(w: Tensor) -> Tensor:
        a = w.abs()[None]
        scale = a.amax(1).double() / levels[-1]
        for _ in range(iterations):
            codes = nearest_levels(a, scale, levels)
            scale = best_scale(a, codes)
        return scale * codes[0] * w.sign()

    return project


def _measure_sweeps(say: Say, effort: Effort) -> list[dict[str, Any]]:
    """Part (c): one record per size, bit-width and sweep, each measured in processes of its own."""
    cases = [(n, bits, size) for size in effort.sweep_sizes for bits in effort.bits for n in SWEEPS]
    cases += [("bracketed", bits, size) for size in effort.bracketed_sizes for bits in effort.bits]
    runs: dict[Case, list[dict[str, float]]] = {case: [] for case in cases}
    for repetition in range(effort.repetitions):
        for case in runs:
            say(f"(c) repetition {repetition + 1}: {case}")
            runs[case].append(in_own_process(__name__, *case))
    return [
        {
            "size": size,
            "bits": bits,
            "sweep": name,
            "seconds": statistics.median(run["seconds"] for run in measured),
            "megabytes": statistics.median(run["megabytes"] for run in measured),
        }
        for (name, bits, size), measured in runs.items()
    ]


def _measure_sweep(name: str, bits: int, size: int) -> dict[str, float]:
    """Time and peak memory above what the weights take, of one sweep in this process."""
    levels = torch.arange(2 ** (bits - 1), dtype=torch.float64)
    a = normal_weights(size).abs()[None]
    SWEEPS[name](a[:, :1000], levels)
    before = memory_megabytes("VmRSS")
    _, duration = timed(lambda: SWEEPS[name](a, levels))
    return {"seconds": duration, "megabytes": memory_megabytes("VmHWM") - before}


def _cell(key: str, value: Any) -> str:
    """One entry of a table, aligned."""
    formats: dict[str, Callable[[Any], str]] = {
        "size": lambda x: f"{x:>11,}",
        "bits": lambda x: f"{x} bits",
        "method": lambda x: f"{x:<29}",
        "sweep": lambda x: f"{x:<10}",
        "seconds": lambda x: f"{1000 * x:10.1f} ms",
        "error": lambda x: "error    -     " if x is None else f"error {x:.8f}",
        "excess": lambda x: f"excess {100 * x:8.3f} %",
        "megabytes": lambda x: f"{x:8.1f} MB",
    }
    return formats.get(key, str)(value)


if __name__ == "__main__":
    answer(_measure_sweep(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
