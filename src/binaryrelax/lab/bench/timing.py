"""Measuring time fairly, on the same weights in every run."""

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

QUIET_SECONDS, SHORTEST_SECONDS = 0.25, 0.1
Say = Callable[[str], None]
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


def timed(method: Callable[[], Result]) -> tuple[Result, float]:
    """What a call returns, and how many seconds it takes."""
    start = time.perf_counter()
    result = method()
    return result, time.perf_counter() - start


def interleaved(methods: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The median time of each method; every repetition runs all of them.

    A machine that is busy for a while then slows all methods alike.
    """
    times = _times(methods, repetitions, lambda method: timed(method)[1])
    return {name: statistics.median(values) for name, values in times.items()}


def interleaved_apart(
    methods: dict[str, Callable[[], object]], repetitions: int
) -> dict[str, float]:
    """The least time of each method, for libraries whose threads spin on after their work.

    Before each measurement all is quiet for a moment, and it takes a tenth of a second or more.
    The least, not the median: what others do on the machine only ever adds.
    """

    def seconds(method: Callable[[], object]) -> float:
        time.sleep(QUIET_SECONDS)
        method()
        calls, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + SHORTEST_SECONDS:
            method()
            calls += 1
        return (time.perf_counter() - begin) / calls

    times = _times(methods, repetitions, seconds)
    return {name: min(values) for name, values in times.items()}


def _times(
    methods: dict[str, Callable[[], object]],
    repetitions: int,
    seconds: Callable[[Callable[[], object]], float],
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repetitions):
        for name, method in methods.items():
            times[name].append(seconds(method))
    return times


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
