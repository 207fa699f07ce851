"""Measuring time fairly, on the same weights in every run."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from binaryrelax_lab.engine import Machine

QUIET_SECONDS, SHORTEST_SECONDS = 0.25, 0.1
INSTRUCTIONS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8")
Result = TypeVar("Result")


def normal_weights(size: int) -> Tensor:
    """Normal weights, the same in every run."""
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


def describe_cpu() -> dict[str, Any]:
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


def vector_instructions() -> list[str]:
    """Of those that decide how fast a CPU multiplies bytes, the ones that it has."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return [name for name in INSTRUCTIONS if name in flags]


def gpu_machine(bench: str) -> Machine:
    """The CUDA device, with bf16; a `ValueError` that names the bench where there is none."""
    if not torch.cuda.is_available():
        raise ValueError(f"bench {bench} needs a CUDA device; this machine has none")
    return Machine(torch.device("cuda"), precision="bf16")


def timed(method: Callable[[], Result]) -> tuple[Result, float]:
    """What a call returns, and how many seconds it takes."""
    start = time.perf_counter()
    result = method()
    return result, time.perf_counter() - start


def in_turns(
    measures: Mapping[str, Callable[[], float]], repetitions: int
) -> dict[str, list[float]]:
    """What each measures, time after time; every repetition takes all of them.

    A machine that is busy for a while then slows all alike.
    """
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repetitions):
        for name, measure in measures.items():
            found[name].append(measure())
    return found


def medians(found: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each list."""
    return {name: statistics.median(values) for name, values in found.items()}


def interleaved(methods: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The median time of each method, in seconds; they are run in turns."""
    measures = {name: partial(_seconds, method) for name, method in methods.items()}
    return medians(in_turns(measures, repetitions))


def interleaved_apart(
    methods: Mapping[str, Callable[[], object]], repetitions: int
) -> dict[str, float]:
    """The least time of each method, for libraries whose threads spin on after their work.

    Before each measurement all is quiet for a moment, and it takes a tenth of a second or more.
    The least, not the median: what others do on the machine only ever adds.
    """
    return {name: min(values) for name, values in all_apart(methods, repetitions).items()}


def all_apart(
    methods: Mapping[str, Callable[[], object]], repetitions: int
) -> dict[str, list[float]]:
    """Every time of each method, in seconds, measured as `interleaved_apart` does."""
    measures = {name: partial(_seconds_apart, method) for name, method in methods.items()}
    return in_turns(measures, repetitions)


def calls_apart(
    methods: Mapping[str, Callable[[], object]], repetitions: int
) -> dict[str, list[float]]:
    """The seconds of every single call, in turns and with quiet between; the first is not counted.

    Single calls, unlike `all_apart`: where other work comes and goes, some of them escape it.
    """
    measures = {name: partial(_calls_apart, method) for name, method in methods.items()}
    found: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repetitions):
        for name, measure in measures.items():
            found[name] += measure()
    return found


def _calls_apart(method: Callable[[], object]) -> list[float]:
    time.sleep(QUIET_SECONDS)
    method()
    found: list[float] = []
    end = time.perf_counter() + SHORTEST_SECONDS
    while not found or time.perf_counter() < end:
        found.append(_seconds(method))
    return found


def _seconds(method: Callable[[], object]) -> float:
    return timed(method)[1]


def _seconds_apart(method: Callable[[], object]) -> float:
    time.sleep(QUIET_SECONDS)
    method()
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + SHORTEST_SECONDS:
        method()
        calls += 1
    return (time.perf_counter() - begin) / calls


def device_time(launch: Callable[[], object], stream: torch.cuda.Stream | None = None) -> float:
    """Milliseconds that a CUDA device takes for what is launched, by its own clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record(stream)
    launch()
    end.record(stream)
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def graph_time(call: Callable[[], object], calls: int = 5, rounds: int = 30) -> float:
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
    return statistics.median(device_time(graph.replay) / calls for _ in range(rounds))
