"""What a device tells the host without making it wait: flags, agreed on by all processes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from binaryrelax.quantizers.sharded_weights import is_dtensor, known_to_all

CALLS_BETWEEN_READS = 16  # copying the flags takes longer than a small step's launches


class DeviceFlags:
    """One flag per weight on a device, and their copy on the way to the host.

    Attributes:
        weights: what the flags stand for.
        raised: the flags, on the device.
        is_shared: whether processes hold parts of the weights, so that they must agree.
    """

    def __init__(self, weights: list[Tensor]) -> None:
        device = weights[0].device
        self.weights = weights
        self.is_shared = any(is_dtensor(weight) for weight in weights)
        self.raised = torch.zeros(len(weights), dtype=torch.bool, device=device)
        self._on_host = torch.zeros(len(weights), dtype=torch.bool, device="cpu")
        if device.type != "cpu":
            self._on_host = self._on_host.pin_memory()
        self._is_sent = False
        self._arrived: torch.cuda.Event | None = None  # none is needed on the CPU
        self._num_calls = 0

    def read(self, *, wait: bool) -> list[Tensor]:
        """The weights whose flags are raised; without waiting, those known so far."""
        if wait:
            return chosen(self.weights, self._known().cpu())
        self._num_calls += 1
        if self._num_calls % CALLS_BETWEEN_READS:
            return []
        if self._arrived and self.is_shared:  # all processes must see the flags at the same step
            self._arrived.synchronize()
        if self._arrived and not self._arrived.query():  # type: ignore[no-untyped-call]
            return []
        found = chosen(self.weights, self._on_host) if self._is_sent else []
        self._send()
        return found

    def clear(self) -> None:
        """Take all flags down."""
        self.raised.zero_()  # in place: a captured graph writes to this very tensor
        self._is_sent, self._arrived = False, None

    def _known(self) -> Tensor:
        """The flags as all processes are to see them."""
        return self.raised

    def _send(self) -> None:
        self._on_host.copy_(self._known(), non_blocking=True)
        self._is_sent = True
        if self.raised.is_cuda:
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()


def agreed(flags: list[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """One flag per weight, raised if it is on any process: one exchange for each mesh."""
    flags, meshes = list(flags), dict[object, list[int]]()
    for index, weight in enumerate(weights):
        if is_dtensor(weight):
            meshes.setdefault(weight.device_mesh, []).append(index)
    for indices in meshes.values():
        known = known_to_all(torch.stack([flags[i] for i in indices]), weights[indices[0]])
        for index, flag in zip(indices, known, strict=True):
            flags[index] = flag
    return torch.stack(flags)


def chosen(weights: Sequence[Tensor], flags: Tensor) -> list[Tensor]:
    """The weights whose flags are raised; waits for the device that these are on."""
    return [w for w, is_raised in zip(weights, flags.tolist(), strict=True) if is_raised]


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured: nothing is done then, nor may anyone wait for it."""
    is_initialized: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return is_initialized and torch.cuda.is_current_stream_capturing()
