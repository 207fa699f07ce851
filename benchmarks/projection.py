"""Time, error and memory of the projections, in one run.

(a) exact ternary against torch.sort, TWN's threshold and torchao's LSBQuantizer
(b) exact b-bit against Lloyd's algorithm after 1, 5, 20 and 100 iterations
(c) the bracketed sweep against the full sweep, its reference

Repetitions are interleaved, so that a busy machine slows all methods alike; times are medians.
torchao is needed for its rows only: pip install --no-deps torchao==0.18.0
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from binaryrelax.quantizers import OneStepLloyd, Quantizer, Ternary, TernaryThreshold, Uniform
from binaryrelax.quantizers.assignment import best_scale, nearest_levels
from binaryrelax.quantizers.sweep import bracketed_sweep, full_sweep

RESULTS = Path(__file__).parent / "results" / "projection.json"
TERNARY_SIZES = (10**5, 10**6, 10**7, 11 * 10**6)
LLOYD_SIZE = 10**6
LLOYD_ITERATIONS = (1, 5, 20, 100)
LLOYD_BITS = (3, 4, 8)
SWEEP_BITS = (3, 4, 8)
SWEEPS = {"bracketed": bracketed_sweep, "full": full_sweep}
MOST_SECONDS = 60  # a method that would take longer at ten times the size is not run there
Method = Callable[[Tensor], Tensor | None]


def main() -> None:
    """Run the benchmarks, print the tables and write them as JSON."""
    options = parse_options()
    if options.measure_sweep:
        name, bits, size = options.measure_sweep
        print(json.dumps(measure_sweep(name, int(bits), int(size))))
        return
    report: dict[str, object] = {"machine": machine(), "repetitions": options.repetitions}
    print(f"machine: {report['machine']}")
    if "a" in options.parts:
        report["ternary"] = benchmark_ternary(options.repetitions)
    if "b" in options.parts:
        report["lloyd"] = benchmark_lloyd(options.repetitions)
    if "c" in options.parts:
        report["sweep"] = benchmark_sweeps(options.repetitions)
    print_tables(report)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nwritten: {options.out.name}")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default="abc", help="which of the three to run (default: abc)")
    parser.add_argument("--repetitions", type=int, default=5, help="times are medians of so many")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the JSON file to write")
    parser.add_argument("--measure-sweep", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def normal_weights(size: int) -> Tensor:
    """Normal weights, the same in every run."""
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


def seconds(method: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    method()
    return time.perf_counter() - start


def interleaved(methods: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The median time of each method; every repetition runs all of them."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repetitions):
        for name, method in methods.items():
            times[name].append(seconds(method))
    return {name: statistics.median(values) for name, values in times.items()}


def relative_error(w: Tensor, projected: Tensor) -> float:
    """||w - projected||^2 / ||w||^2, in float64."""
    residual = w.double() - projected.double()
    return float(residual.square().sum() / w.double().square().sum())


def benchmark_ternary(repetitions: int) -> list[dict[str, object]]:
    """Part (a): one record per size and method."""
    records: list[dict[str, object]] = []
    too_slow: dict[str, str] = {}
    for size in TERNARY_SIZES:
        w = normal_weights(size)
        methods = ternary_methods()
        records += [
            {"size": size, "method": name, "note": too_slow[name]}
            for name in methods
            if name in too_slow
        ]
        methods = {name: method for name, method in methods.items() if name not in too_slow}
        errors = {}
        for name, method in methods.items():
            print(f"(a) {size:,} weights: {name}", flush=True)
            duration = seconds(lambda method=method: errors.update({name: method(w)}))  # noqa: B023
            if 10 * duration > MOST_SECONDS:
                too_slow[name] = f"not run ({duration:.1f} s at {size:,})"
        calls = {name: (lambda method=method: method(w)) for name, method in methods.items()}  # noqa: B023
        medians = interleaved(calls, repetitions)
        for name, projected in errors.items():
            error = None if projected is None else relative_error(w, projected)
            records.append({"size": size, "method": name, "seconds": medians[name], "error": error})
    return records


def ternary_methods() -> dict[str, Method]:
    """Everything that is compared in part (a)."""
    return {
        "Ternary (exact)": Ternary().project,
        "torch.sort alone": only_sort,
        "TernaryThreshold (TWN)": TernaryThreshold().project,
        **torchao_methods(),
    }


def only_sort(w: Tensor) -> None:
    """What any method that sorts must at least do."""
    w.abs().sort(descending=True)


def torchao_methods() -> dict[str, Method]:
    """torchao's least-squares ternary: whole tensor, one row of a matrix, and its default."""
    if importlib.util.find_spec("torchao") is None:
        print("torchao is not installed: its rows are left out (pip install --no-deps torchao)")
        return {}
    logging.disable(logging.WARNING)  # torchao reports the extensions it did not find
    warnings.filterwarnings("ignore", message=".*nested tensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.prototype.parq.quant.lsbq import LSBQuantizer
    optimal, simple = LSBQuantizer(optimal=True), LSBQuantizer()
    return {
        "torchao LSBQ optimal": lambda w: optimal.quantize(w, 0)[0],
        "torchao LSBQ optimal, dim=-1": lambda w: optimal.quantize(w[None], 0, dim=-1)[0][0],
        "torchao LSBQ default": lambda w: simple.quantize(w, 0)[0],
    }


def benchmark_lloyd(repetitions: int) -> list[dict[str, object]]:
    """Part (b): one record per bit-width and method."""
    w = normal_weights(LLOYD_SIZE)
    records: list[dict[str, object]] = []
    for bits in LLOYD_BITS:
        print(f"(b) {bits} bits, {LLOYD_SIZE:,} weights", flush=True)
        methods: dict[str, Method] = {
            "Uniform (exact)": Uniform(bits=bits).project,
            "OneStepLloyd": OneStepLloyd(bits=bits).project,
        }
        for count in LLOYD_ITERATIONS:
            methods[f"Lloyd x{count}"] = iterated_lloyd(Uniform(bits=bits), count)
        calls = {name: (lambda method=method: method(w)) for name, method in methods.items()}
        medians = interleaved(calls, repetitions)
        errors = {name: relative_error(w, method(w)) for name, method in methods.items()}
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


def iterated_lloyd(quantizer: Quantizer, iterations: int) -> Method:
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


def benchmark_sweeps(repetitions: int) -> list[dict[str, object]]:
    """Part (c): one record per size, bit-width and sweep, each run in a process of its own."""
    cases = [
        (name, bits, size) for size in (10**5, 10**6) for bits in SWEEP_BITS for name in SWEEPS
    ]
    cases += [("bracketed", bits, 10**7) for bits in SWEEP_BITS]
    runs: dict[tuple[str, int, int], list[dict[str, float]]] = {case: [] for case in cases}
    for repetition in range(repetitions):
        for case in cases:
            print(f"(c) repetition {repetition + 1}: {case}", flush=True)
            command = [sys.executable, __file__, "--measure-sweep", *map(str, case)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            runs[case].append(json.loads(output))
    return [
        {
            "size": size,
            "bits": bits,
            "sweep": name,
            "seconds": statistics.median(run["seconds"] for run in runs[name, bits, size]),
            "megabytes": statistics.median(run["megabytes"] for run in runs[name, bits, size]),
        }
        for name, bits, size in cases
    ]


def measure_sweep(name: str, bits: int, size: int) -> dict[str, float]:
    """Time and peak memory above what the weights take, of one sweep in this process."""
    levels = torch.arange(2 ** (bits - 1), dtype=torch.float64)
    a = normal_weights(size).abs()[None]
    SWEEPS[name](a[:, :1000], levels)
    before = memory_kilobytes("VmRSS")
    duration = seconds(lambda: SWEEPS[name](a, levels))
    return {"seconds": duration, "megabytes": (memory_kilobytes("VmHWM") - before) / 1024}


def memory_kilobytes(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def print_tables(report: dict[str, object]) -> None:
    """The records as three tables."""
    titles = {
        "ternary": "(a) Ternary, normal weights: relative squared error and time",
        "lloyd": f"(b) b-bit, {LLOYD_SIZE:,} normal weights: excess over the optimum and time",
        "sweep": "(c) Bracketed and full sweep: time and peak extra memory",
    }
    for part, title in titles.items():
        if part in report:
            print(f"\n{title}")
            for record in report[part]:
                print("  " + "  ".join(cell(key, value) for key, value in record.items()))


def cell(key: str, value: object) -> str:
    """One entry of a table, aligned."""
    formats: dict[str, Callable[[object], str]] = {
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
    main()
