"""Samples of weights on a device, by which replaced weights are noticed without waiting."""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax.optim.device_flags import DeviceFlags, agreed, chosen
from binaryrelax.quantizers.sharded_weights import is_dtensor, local_part

SAMPLE_SIZE = 4096  # entries of a weight: several of each row of most layers
WHOLE_NUMBERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class DeviceSamples:
    """Some entries of each weight on a device, as the optimizer wrote them.

    ``look`` compares them with what the weights hold and raises flags on the device, which are
    read later. A weight of at most ``SAMPLE_SIZE`` entries is compared as a whole; of larger ones
    every n-th entry is, where n is odd, so that all rows and columns have their turn.
    """

    def __init__(self, weights: list[Tensor]) -> None:
        device = weights[0].device
        dtypes = {weight.dtype for weight in weights}
        widest = torch.float64 if torch.float64 in dtypes else torch.float32
        self._flags = _FlagsOfParts(weights)
        self._padding = torch.zeros(SAMPLE_SIZE, dtype=widest, device=device)
        # One memory for good: a captured graph goes on to write to it.
        self._known = torch.zeros(len(weights), SAMPLE_SIZE, dtype=widest, device=device)
        self._lay_out()

    def remember(self) -> None:
        """The weights are as the optimizer wants them; may be captured in a graph."""
        if self._places != [_place(weight) for weight in self._flags.weights]:
            self._lay_out()
        torch.cat(self._pieces, out=self._known.view(-1))

    def look(self) -> None:
        """Raise the flags of weights that hold other values than those remembered."""
        self._flags.raised.logical_or_(self._differ())

    def differing(self) -> list[Tensor]:
        """The weights that hold other values at the moment; waits for the device."""
        weights = self._flags.weights
        return chosen(weights, agreed(list(self._differ()), weights))

    def read(self, *, wait: bool) -> list[Tensor]:
        """The weights that ``look`` found to hold other values, as far as it is known."""
        return self._flags.read(wait=wait)

    def forget(self) -> None:
        """Take back what was found."""
        self._flags.clear()

    def moved(self) -> list[Tensor]:
        """The weights that lie in other memory than before, with other values in it.

        Waits for the device where memory was exchanged. Of shards it raises the flags instead:
        ``fully_shard`` moves some at the first forward, and not on all processes.
        """
        now = [_place(weight) for weight in self._flags.weights]
        if now == self._places:
            return []
        self.look()  # at what was written before
        found = []
        for index, weight in enumerate(self._flags.weights):
            if now[index] == self._places[index]:
                continue
            differs = _differ_anywhere(local_part(weight), self._parts[index])
            if is_dtensor(weight):
                self._flags.raised[index].logical_or_(differs)
            elif differs:
                found.append(weight)
        if not found:
            self.remember()
        return found

    def _differ(self) -> Tensor:
        now = torch.cat(self._pieces).view_as(self._known)
        return (_bits(now) != _bits(self._known)).any(1)

    def _lay_out(self) -> None:
        """Find where the samples lie; what they held stays known."""
        self._places = [_place(weight) for weight in self._flags.weights]
        self._parts = [local_part(weight) for weight in self._flags.weights]  # the same memory
        self._pieces: list[Tensor] = []  # views, padded to the same length
        for part in self._parts:
            sample = _sample(part)
            self._pieces += [sample, self._padding[len(sample) :]]


class _FlagsOfParts(DeviceFlags):
    """Flags that each process raises for its part of a weight alone; they agree when reading."""

    def _known(self) -> Tensor:
        return agreed(list(self.raised), self.weights) if self.is_shared else self.raised


def _place(weight: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    """Where the weight's memory begins, and how the weight lies in it."""
    here: Tensor = weight.to_local() if is_dtensor(weight) else weight  # cheap: asked often
    return here.data_ptr(), here.shape, here.stride()


def _differ_anywhere(one: Tensor, other: Tensor) -> Tensor:
    if one.shape != other.shape:
        return torch.ones((), dtype=torch.bool, device=one.device)
    return (_bits(one) != _bits(other)).any()


def _bits(values: Tensor) -> Tensor:
    """The same memory as whole numbers: a NaN that the optimizer wrote is not another value."""
    return values.view(WHOLE_NUMBERS[values.dtype.itemsize])


def _sample(part: Tensor) -> Tensor:
    line = _line(part)
    step = -(-len(line) // SAMPLE_SIZE) | 1
    return line[::step]


def _line(part: Tensor) -> Tensor:
    """The entries in the order of memory; of a part with gaps, those along its longest dimension.

    It is a view: whoever looks at it later sees what the weight holds then.
    """
    dims = range(part.dim())
    ordered = part.permute(sorted(dims, key=part.stride, reverse=True))
    if ordered.is_contiguous():
        return ordered.view(-1)
    longest = max(dims, key=part.size)
    for dim in reversed(dims):
        part = part if dim == longest else part.select(dim, 0)
    return part
