"""Calling a function of a batch, and on a GPU replaying it as a CUDA graph."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

CALLS_BEFORE_CAPTURE = 2  # let libraries choose their algorithms and allocate their memory
ONE_AT_A_TIME = threading.RLock()  # compiling and capturing change state of the whole process

Batch = tuple[Tensor, ...]


@dataclass
class _Recording:
    """A captured call: what it reads from, and the graph."""

    inputs: Batch
    graph: torch.cuda.CUDAGraph


class GraphedFunction:
    """A function of a batch that works by side effects alone.

    The first calls with batches of some shape are ordinary ones. Then the function is captured in
    a CUDA graph, and further calls copy the batch to where the graph reads it and replay it.

    Args:
        function: it must neither wait for the device nor depend on anything but its batch and
            tensors that stay where they are.
        before_replay: called before each replay, for what the host does in an ordinary call.
        on_failure: told why capturing is impossible, once; calls stay ordinary ones then.
    """

    def __init__(
        self,
        function: Callable[..., None],
        *,
        before_replay: Callable[[], None] = lambda: None,
        on_failure: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.function, self.before_replay, self.on_failure = function, before_replay, on_failure
        self._calls: dict[tuple[torch.Size, ...], int] = {}
        self._recordings: dict[tuple[torch.Size, ...], _Recording] = {}
        self._can_capture = True

    def __call__(self, *batch: Tensor) -> None:
        shapes = tuple(tensor.shape for tensor in batch)
        recording = self._recordings.get(shapes)
        if recording is None and self._is_due(shapes):
            recording = self._record(shapes, batch)
        if recording is None:
            with ONE_AT_A_TIME:  # the first call may compile
                self.function(*batch)
            self._calls[shapes] = self._calls.get(shapes, 0) + 1
            return
        for static, tensor in zip(recording.inputs, batch, strict=True):
            static.copy_(tensor, non_blocking=True)
        self.before_replay()
        recording.graph.replay()

    def _is_due(self, shapes: tuple[torch.Size, ...]) -> bool:
        return self._can_capture and self._calls.get(shapes, 0) >= CALLS_BEFORE_CAPTURE

    def _record(self, shapes: tuple[torch.Size, ...], batch: Batch) -> _Recording | None:
        inputs = tuple(tensor.to("cuda", copy=True) for tensor in batch)
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        try:
            with (
                ONE_AT_A_TIME,
                torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
            ):
                self.function(*inputs)
        except RuntimeError as error:
            self._can_capture = False
            self.on_failure(str(error).splitlines()[0])
            return None
        self._recordings[shapes] = _Recording(inputs, graph)
        return self._recordings[shapes]
