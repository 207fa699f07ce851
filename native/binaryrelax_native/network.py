"""A whole network in one call: numpy in, numpy out."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native

Array = npt.NDArray[np.float32]
DEFAULT_MEMORY = 8 << 30  # bytes; a file may ask for images of any size


class Network:
    """A network that ``load`` has read. It never changes; any number of threads may call it.

    Attributes:
        mode: "fast" (activations in 8 bits) or "exact" (in float32).
        input_shapes: of the example that it was exported with, without the batch.
        about: what the writer of the file said about it.
        threads: how many threads a call uses at most.
        instruction_set: which of ``instruction_sets()`` it runs.
        nbytes: bytes of memory that its weights take.

    Examples:
        >>> import binaryrelax_native, numpy as np, torch
        >>> from binaryrelax import Binary, export_native, pack, select_weights
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.ReLU())
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> export_native(pack(model, weights), torch.randn(1, 8), "net.brx", mode="exact")
        >>> net = binaryrelax_native.load("net.brx")
        >>> net(np.ones((5, 8))).shape
        (5, 3)
        >>> "0" in dict(net.profile(np.ones((1, 8))))  # the name of the layer
        True
    """

    def __init__(self, name: str, native: _native.Network) -> None:
        self._name, self._native = name, native
        self.mode: str = native.mode
        self.input_shapes = [tuple(shape) for shape in native.inputs]
        self.about: dict[str, str] = native.about
        self.threads: int = native.threads
        self.instruction_set: str = native.instruction_set
        self.nbytes: int = native.nbytes

    def __call__(self, *inputs: npt.ArrayLike) -> Any:
        """The outputs for a batch: an array, or a tuple of them where the network gives several.

        Args:
            inputs: images (N, C, H, W) or vectors (N, F), as the network takes them. N, and H and W
                where the network allows, may change from call to call. Other types become float32.

        Raises:
            ValueError: they do not fit the network.
        """
        arrays = [_as_floats(x) for x in inputs]
        outputs = self._outputs(arrays)
        self._native.run(arrays, outputs)
        return outputs[0] if self._native.gives_one else tuple(outputs)

    def run_time_ms(self, *inputs: npt.ArrayLike, repetitions: int = 20) -> float:
        """The least time of several calls with these inputs, in milliseconds."""
        arrays = [_as_floats(x) for x in inputs]
        outputs = self._outputs(arrays)
        times = []
        for _ in range(repetitions + 1):  # the first makes the plan
            start = perf_counter()
            self._native.run(arrays, outputs)
            times.append(perf_counter() - start)
        return 1e3 * min(times)

    def profile(self, *inputs: npt.ArrayLike) -> list[tuple[str, float]]:
        """What each step takes in one thread, in milliseconds: (name, time) in their order."""
        arrays = [_as_floats(x) for x in inputs]
        outputs = self._outputs(arrays)
        self._native.run(arrays, outputs)
        steps = self._native.profile(arrays, outputs)
        return [(name, 1e3 * seconds) for name, seconds in steps]

    def memory(self, *shapes: tuple[int, ...]) -> int:
        """Bytes that a call needs beside the weights, for inputs of these shapes with batch."""
        return self._native.memory([list(shape) for shape in shapes])

    def __repr__(self) -> str:
        shapes = ", ".join(f"(N, {', '.join(map(str, shape))})" for shape in self.input_shapes)
        return f"Network({self._name!r}, mode={self.mode!r}, inputs={shapes})"

    def _outputs(self, arrays: list[Array]) -> list[Array]:
        shapes = self._native.output_shapes([list(array.shape) for array in arrays])
        return [np.empty(shape, np.float32) for shape in shapes]


def load(
    file: str | os.PathLike[str] | bytes,
    *,
    threads: int | None = None,
    instruction_set: str | None = None,
    most_memory: int = DEFAULT_MEMORY,
) -> Network:
    """Reads a network that ``binaryrelax.export_native`` has written.

    Args:
        file: the path of the file, or what it holds. It is checked, digests too, before any of it
            is used; no code is run.
        threads: how many threads a call uses at most; as many as there are CPUs if not given.
        instruction_set: one of ``instruction_sets()``; the best if not given.
        most_memory: bytes that activations of a call may take.

    Raises:
        ValueError: the file is not one, was changed, or says something impossible.
        OSError: it cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> import binaryrelax_native
        >>> _ = Path("notes.brx").write_text("no network at all")
        >>> try:
        ...     binaryrelax_native.load("notes.brx")
        ... except ValueError as error:
        ...     print(str(error).partition(":")[0])
        notes.brx
    """
    name, content = _read(file)
    count = _num_cpus() if threads is None else threads
    try:
        data = np.frombuffer(content, np.uint8)
        native = _native.Network(data, count, instruction_set, most_memory)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return Network(name, native)


def _read(file: str | os.PathLike[str] | bytes) -> tuple[str, bytes]:
    """A name for people, and what the file holds."""
    if isinstance(file, bytes):
        return f"network of {len(file):,} bytes", file
    path = Path(file)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the file in it")
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{path}: is no plain file")
    return str(path), path.read_bytes()


def _as_floats(x: npt.ArrayLike) -> Array:
    return np.require(x, np.float32, ["C", "ALIGNED"])


def _num_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
