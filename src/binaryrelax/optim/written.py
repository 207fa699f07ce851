"""Notices weights that somebody else has written to since the optimizer wrote them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import Tensor

from binaryrelax.optim.arguments import first_few
from binaryrelax.optim.flags import agreed, chosen
from binaryrelax.optim.samples import DeviceSamples
from binaryrelax.quantizers.dtensors import is_dtensor, known_to_all, local_part
from binaryrelax.quantizers.memory import overlaps

Names = Mapping[Tensor, str]
_WHOLE_NUMBERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class WrittenWeights:
    """Which weights have been written to; unless it says so, nothing waits for a device.

    Torch counts how often a tensor is written to, but not who writes to ``weight.data``. So on the
    CPU a copy of each weight is kept to compare with, bit by bit. On a device a sample is compared,
    and the answer comes some steps later; memory that was exchanged is noticed at once.
    """

    def __init__(self) -> None:
        self._versions: dict[Tensor, int] = {}
        self._copies: dict[Tensor, _Copy] = {}  # of the weights on the CPU
        self._samples: dict[torch.device, DeviceSamples] = {}  # of those on devices

    def remember(self, weights: Collection[Tensor]) -> None:
        """The weights, which are all there are, are as the optimizer wants them."""
        for weight in weights:
            self._versions[weight] = weight._version
            if weight.device.type == "cpu":
                self._copies.setdefault(weight, _Copy()).take(weight)
            elif weight.device not in self._samples:
                here = [w for w in weights if w.device == weight.device]
                self._samples[weight.device] = DeviceSamples(here)
        for samples in self._samples.values():
            samples.remember()

    def restart(self) -> None:
        """Sample anew: other weights are about to join."""
        self._samples.clear()

    def touched(self) -> list[Tensor]:
        """The weights that were written to since, though perhaps with what they held before.

        Of those on devices some may be missing, which ``look`` or ``differing`` finds.
        """
        moved = {weight for samples in self._samples.values() for weight in samples.moved()}
        found = {weight: weight in moved or self._is_written(weight) for weight in self._versions}
        here = [weight for weight in found if weight.device.type == "cpu"]
        if any(is_dtensor(weight) for weight in here):
            flags = agreed([torch.tensor(found[weight]) for weight in here], here)
            found |= dict.fromkeys(chosen(here, flags), True)
        return [weight for weight, is_touched in found.items() if is_touched]

    def look(self) -> None:
        """Compare the samples on devices, for ``overwritten`` to tell."""
        for samples in self._samples.values():
            samples.look()

    def overwritten(self, *, wait: bool) -> list[Tensor]:
        """The weights in which ``look`` found other values; without waiting, some steps late."""
        return [w for samples in self._samples.values() for w in samples.read(wait=wait)]

    def differing(self) -> list[Tensor]:
        """The weights on devices whose samples differ now; waits for the devices."""
        return [w for samples in self._samples.values() for w in samples.differing()]

    def forget(self) -> None:
        """Take back what ``look`` has found."""
        for samples in self._samples.values():
            samples.forget()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """After, the weights hold what they held before, as if nobody had written to them."""
        held = {weight: weight.detach().clone() for weight in self._versions}
        untouched = held.keys() - set(self.touched())
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, values in held.items():
                    weight.copy_(values)
            self._versions.update((weight, weight._version) for weight in untouched)

    def _is_written(self, weight: Tensor) -> bool:
        if weight._version != self._versions[weight]:
            return True
        return weight in self._copies and self._copies[weight].differs(weight)

    def __getstate__(self) -> dict[str, Any]:
        unknown = dict.fromkeys(self._versions, -1)  # copies count from 0 again
        return {"_versions": unknown, "_copies": {}, "_samples": {}}


class _Copy:
    """What a weight on the CPU held, or this process's part of it."""

    def __init__(self) -> None:
        self._values = torch.empty(0)
        self._stride: tuple[int, ...] | None = None  # of the weight, when it was copied

    def take(self, weight: Tensor) -> None:
        here = local_part(weight)
        if (here.dtype, here.shape, here.stride()) != self._layout():
            self._values, self._stride = here.clone(), here.stride()
        else:
            self._values.copy_(here)

    def differs(self, weight: Tensor) -> bool:
        """Whether a single bit does; numpy takes a third of the time that ``torch.equal`` takes."""
        return not numpy.array_equal(_bits(local_part(weight)), _bits(self._values))

    def _layout(self) -> tuple[torch.dtype, torch.Size, tuple[int, ...] | None]:
        return self._values.dtype, self._values.shape, self._stride


def _bits(values: Tensor) -> Any:
    """The tensor as an array of whole numbers, which tells -0 from 0 and knows no NaN."""
    return values.view(_WHOLE_NUMBERS[values.dtype.itemsize]).numpy()


def refuse_moved(call: str, float_weights: Mapping[Tensor, Tensor], names: Names) -> None:
    """Raise ValueError if weights are no longer where, or of the kind, that their y is."""
    found = [
        names[weight]
        for weight, y in float_weights.items()
        if weight.dtype != y.dtype or weight.device != y.device or weight.shape != y.shape
    ]
    if found:
        raise ValueError(
            f"{call}: {first_few(found)} changed dtype, device or shape after the optimizer was "
            "built: convert the model first, then build the optimizer and load its state"
        )


def refuse_shared_memory(
    call: str, weights: Iterable[Tensor], float_weights: Mapping[Tensor, Tensor], names: Names
) -> None:
    """Raise ValueError if weights lie in the memory of each other, or in that of some y."""
    order = {weight: place for place, weight in enumerate(weights)}
    pairs = overlaps([*order, *float_weights.values()])
    later = [max(pair, key=lambda tensor: order.get(tensor, -1)) for pair in pairs]
    found = [names[weight] for weight in dict.fromkeys(later)]
    if found:
        raise ValueError(
            f"{call}: {first_few(found)} lies in the memory of other weights, or of the float "
            "weights: give it its own, weight.data = weight.data.clone(); to tie layers, have "
            "them hold one parameter"
        )


def refuse_replaced(call: str, replaced: Iterable[Tensor], names: Names) -> None:
    """Raise ValueError if there are weights that the optimizer would throw away."""
    found = [names[weight] for weight in replaced]
    if found:
        raise ValueError(
            f"{call}: the values of {first_few(found)} are not those that the optimizer wrote, and "
            "would be thrown away: load weights before building the optimizer or loading its "
            "state, or call optimizer.adopt_weights() after"
        )


def refuse_overwritten(call: str, overwritten: Iterable[Tensor], names: Names) -> None:
    """Raise ValueError if a step has thrown away weights before that could be known."""
    found = [names[weight] for weight in overwritten]
    if found:
        raise ValueError(
            f"{call}: some steps ago the values of {first_few(found)} were not those that the "
            "optimizer had written, and have been thrown away: write them again and call "
            "optimizer.adopt_weights() before the next step, or call it now to go on without them"
        )


def are_alike(first: Tensor, second: Tensor) -> bool:
    """Whether the tensors are equal but for rounding, which differs between devices.

    No single weight may differ: among many, a few that were replaced would not show in a norm.
    """
    here, there = local_part(first), local_part(second)
    share = max(1e-6, 4 * torch.finfo(there.dtype).eps)
    is_near = _largest(here - there) <= share * _largest(there)
    return not bool(known_to_all(is_near.logical_not(), first))


def _largest(values: Tensor) -> Tensor:
    """The largest magnitude; 0 of none."""
    return values.abs().amax() if values.numel() else values.new_zeros(())
