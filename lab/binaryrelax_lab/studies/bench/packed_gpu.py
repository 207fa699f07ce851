"""Products with packed weights on a GPU, beside torch's bfloat16 and the bandwidth of the memory.

Times are those of the device inside a CUDA graph that goes from copy to copy of the weights: all
copies together exceed the cache. What is shipped is measured; a sweep also tries other plans and
tells the best of each shape.
"""

import copy
import itertools
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from binaryrelax.kernels.packed_matrix import FewPlan, ManyPlan, PackedMatrix, Plan
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.memory_bandwidth import measure_reading
from binaryrelax_lab.studies.bench.rivals import gemlite_layer
from binaryrelax_lab.studies.bench.timing import gpu_machine, graph_time

SHAPES = ((4096, 4096), (8192, 8192), (11008, 4096))  # outputs, inputs
BATCHES = (1, 4, 16, 64)
SWEPT_BATCHES = (1, 16, 64)
COPIED_BYTES = 256 << 20  # of all copies of a weight, at least
CALLS, ROUNDS, SWEEP_ROUNDS = 2, 15, 7
NUM_COMPILERS = 12

Case = tuple[int, int, int, int]  # outputs, inputs, bits, batch


class Weights:
    """Random weights of a shape, packed, with as many copies as exceed the cache."""

    def __init__(self, outputs: int, inputs: int, bits: int) -> None:
        g = torch.Generator(device="cuda").manual_seed(bits)
        size = (outputs, inputs)
        self.codes = torch.randint(0, bits + 1, size, generator=g, device="cuda", dtype=torch.uint8)
        parts = self.codes.view(outputs, -1, 8 // bits)
        places = torch.arange(0, 8, bits, device="cuda", dtype=torch.uint8)
        packed = (parts << places).sum(-1)
        self.scale = torch.full((1,), 0.03125, device="cuda")
        self.bits = bits
        self.matrix = PackedMatrix(packed.to(torch.uint8), self.scale, inputs, bits)
        self.copies = [self._copy() for _ in range(_num_copies(self.matrix.nbytes))]

    def values(self, dtype: torch.dtype) -> Tensor:
        """The weights themselves."""
        levels = (-1.0, 1.0) if self.bits == 1 else (-1.0, 0.0, 1.0)
        return (torch.tensor(levels, device="cuda") * self.scale).to(dtype)[self.codes.int()]

    def _copy(self) -> PackedMatrix:
        other = copy.copy(self.matrix)
        other.words, other.scale = self.matrix.words.clone(), self.scale.clone()
        return other


def bench_packed_gpu(say: Say, *, sweep: bool = False) -> dict[str, Any]:
    """All measurements as plain data; needs a CUDA device."""
    machine = gpu_machine("packed_gpu")
    cases = [(*shape, bits, batch) for shape in SHAPES for bits in (1, 2) for batch in BATCHES]
    _compile_in_parallel(_shipped_plans(cases) + (_candidates(cases) if sweep else []), say)
    rate = measure_reading()
    say(f"this device reads {rate / 1e12:.2f} TB/s")
    report: dict[str, Any] = {
        "environment": describe_environment(machine),
        "bytes_per_second": rate,
        "copied_bytes": COPIED_BYTES,
        "records": [],
    }
    torch_times = {case: _torch_time(*case) for case in _without_bits(cases)}
    for outputs, inputs in SHAPES:
        for bits in (1, 2):
            weights = Weights(outputs, inputs, bits)
            for batch in BATCHES:
                record = _measure(weights, batch, torch_times[outputs, inputs, batch], rate)
                report["records"].append(record)
                say(_line(record))
            if sweep:
                report.setdefault("sweep", []).extend(_sweep(weights, say))
    return report


def _measure(weights: Weights, batch: int, torch_time: float, rate: float) -> dict[str, Any]:
    matrix = weights.matrix
    x = _vectors(batch, matrix.inputs)
    plan = matrix.plan(batch)
    ours = _rotating_time([partial(m.multiply, x, plan=plan) for m in weights.copies])
    alone = ours
    if isinstance(plan, FewPlan) and plan.early:
        late = replace(plan, early=False)
        alone = _rotating_time([partial(m.multiply, x, plan=late) for m in weights.copies])
    moved = matrix.nbytes + 2 * batch * (matrix.inputs + matrix.outputs)
    floor = 1e6 * moved / rate
    gemlite, note = _gemlite_time(weights, x)
    return {
        "outputs": matrix.outputs, "inputs": matrix.inputs, "bits": weights.bits, "batch": batch,
        "microseconds": ours, "microseconds_without_overlap": alone,
        "torch_bf16_microseconds": torch_time, "torch_over_ours": torch_time / ours,
        "floor_microseconds": floor, "share_of_floor": floor / ours,
        "gemlite_microseconds": gemlite, "gemlite_note": note,
        "max_relative_error": _error(weights, x, matrix.multiply(x)),
        "copies": len(weights.copies), "plan": asdict(plan),
    }  # fmt: skip


def _torch_time(outputs: int, inputs: int, batch: int) -> float:
    x = _vectors(batch, inputs)
    weight = torch.randn(outputs, inputs, device="cuda").bfloat16()
    copies = [weight.clone() for _ in range(_num_copies(weight.nbytes))]
    return _rotating_time([partial(linear, x, w) for w in copies])


def _gemlite_time(weights: Weights, x: Tensor) -> tuple[float | None, str]:
    """Microseconds of gemlite's layer with the same weights, or why there are none."""
    try:
        layer = gemlite_layer(weights.codes, weights.scale, weights.bits, x.dtype)
        error = _error(weights, x, layer(x))
        copies = [copy.deepcopy(layer) for _ in weights.copies]
        return _rotating_time([partial(other, x) for other in copies]), f"error {error:.1e}"
    except ImportError:
        return None, "gemlite is not installed"
    except Exception as problem:  # whatever a foreign library does, the rest is measured
        return None, f"{type(problem).__name__}: {problem}".splitlines()[0]


def _sweep(weights: Weights, say: Say) -> list[dict[str, Any]]:
    """Every candidate for a matrix, the fastest of each batch size first."""
    matrix, records = weights.matrix, []
    for batch in SWEPT_BATCHES:
        x = _vectors(batch, matrix.inputs)
        tried = []
        for plan in _plans(batch):
            found = _try_plan(weights, x, plan)
            tried.append({
                "outputs": matrix.outputs, "inputs": matrix.inputs, "bits": weights.bits,
                "batch": batch, **found, "plan": asdict(plan),
            })  # fmt: skip
        tried.sort(key=lambda record: record["microseconds"] or math.inf)
        for record in tried[:3]:
            say(f"  sweep {_name(record)}: {record['microseconds']} us with {record['plan']}")
        records += tried
    return records


def _try_plan(weights: Weights, x: Tensor, plan: Plan) -> dict[str, Any]:
    try:
        error = _error(weights, x, weights.matrix.multiply(x, plan=plan))
        calls = [partial(m.multiply, x, plan=plan) for m in weights.copies]
        return {"microseconds": _rotating_time(calls, SWEEP_ROUNDS), "max_relative_error": error}
    except Exception as problem:  # a plan may need more than the device has
        return {"microseconds": None, "problem": str(problem).splitlines()[0]}


def _plans(batch: int) -> list[Plan]:
    if batch == 1:
        choices = itertools.product((1, 2, 4), (4, 8, 16), (8, 16))
        early: list[Plan] = [
            FewPlan(tiles=tiles, warps=warps, loads=loads, early=True)
            for tiles, warps, loads in choices
        ]
        return [*early, FewPlan(), FewPlan(tiles=2)]
    if batch <= 16:
        choices = itertools.product((1, 2), (8, 16), (4, 8))
        return [FewPlan(tiles=t, warps=w, loads=n, early=True) for t, w, n in choices]
    return [
        ManyPlan(height=height, columns=64, warps=8 if height == 128 else 4, stages=stages)
        for height in (32, 64, 128)
        for stages in (3, 4)
    ]


def _rotating_time(calls: Sequence[Callable[[], object]], rounds: int = ROUNDS) -> float:
    """Microseconds of one call, in a graph that goes through all of them."""

    def all_calls() -> None:
        for call in calls:
            call()

    return 1000 * graph_time(all_calls, CALLS, rounds) / len(calls)


def _error(weights: Weights, x: Tensor, y: Tensor) -> float:
    """The largest error, over the largest output in float64."""
    expected = x.double() @ weights.values(torch.float64).T
    return float((y.double() - expected).abs().max() / expected.abs().max())


def _vectors(batch: int, inputs: int) -> Tensor:
    g = torch.Generator(device="cuda").manual_seed(batch)
    return torch.randn(batch, inputs, generator=g, device="cuda").bfloat16()


def _num_copies(num_bytes: int) -> int:
    return max(3, math.ceil(COPIED_BYTES / num_bytes))


def _without_bits(cases: list[Case]) -> Iterator[tuple[int, int, int]]:
    yield from dict.fromkeys((outputs, inputs, batch) for outputs, inputs, _, batch in cases)


def _shipped_plans(cases: list[Case]) -> list[tuple[Case, Plan | None, bool]]:
    """Shipped plans, which the matrix chooses, with and without overlap."""
    return [(case, None, late) for case in cases for late in (False, True)]


def _candidates(cases: list[Case]) -> list[tuple[Case, Plan | None, bool]]:
    swept = [case for case in cases if case[-1] in SWEPT_BATCHES]
    return [(case, plan, False) for case in swept for plan in _plans(case[-1])]


def _compile_in_parallel(jobs: list[tuple[Case, Plan | None, bool]], say: Say) -> None:
    """Fills Triton's cache on disk, which this process then reads."""
    begin = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(NUM_COMPILERS, context) as pool:
        problems = {problem for problem in pool.map(_compile, jobs) if problem}
    say(f"compiled {len(jobs)} kernels in {time.perf_counter() - begin:.0f} s")
    for problem in sorted(problems):
        say(f"  not compiled: {problem}")


def _compile(job: tuple[Case, Plan | None, bool]) -> str | None:
    """Runs a product once; why it does not work, if it does not."""
    (outputs, inputs, bits, batch), plan, is_late = job
    codes = torch.zeros(outputs, inputs * bits // 8, dtype=torch.uint8, device="cuda")
    matrix = PackedMatrix(codes, torch.ones(1, device="cuda"), inputs, bits)
    plan = plan or matrix.plan(batch)
    if is_late and isinstance(plan, FewPlan):
        plan = replace(plan, early=False)
    try:
        matrix.multiply(_vectors(batch, inputs), plan=plan)
        torch.cuda.synchronize()
    except Exception as problem:
        return f"{plan}: {problem}".splitlines()[0]
    return None


def _name(record: dict[str, Any]) -> str:
    return "{outputs}x{inputs}, {bits} bit, batch {batch}".format(**record)


def _line(record: dict[str, Any]) -> str:
    gemlite = record["gemlite_microseconds"]
    beside = f"gemlite {gemlite:.2f}" if gemlite else record["gemlite_note"]
    return (
        f"{_name(record)}: {record['microseconds']:.2f} us "
        f"({record['microseconds_without_overlap']:.2f} without overlap), "
        f"torch {record['torch_bf16_microseconds']:.2f} us = {record['torch_over_ours']:.1f}x, "
        f"{record['share_of_floor']:.0%} of the floor, "
        f"error {record['max_relative_error']:.1e}; {beside}"
    )
