"""Notices what others do to the weights: other values, other memory, another dtype."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import Tensor

from binaryrelax.optim.argument_checks import first_few
from binaryrelax.optim.device_flags import agreed, chosen
from binaryrelax.optim.device_samples import WHOLE_NUMBERS, DeviceSamples
from binaryrelax.quantizers.quantizable_layers import overlaps
from binaryrelax.quantizers.sharded_weights import is_dtensor, known_to_all, local_part

Rewrite = Callable[[Collection[Tensor]], None]  # writes x anew into these, and remembers it


class ForeignWrites:
    """Which weights others have written to; unless it says so, nothing waits for a device.

    Torch counts how often a tensor is written to, but not who writes to ``weight.data``. So on the
    CPU a copy of each weight is kept to compare with, bit by bit. On a device a sample is compared,
    and the answer comes some steps later; memory that was exchanged is noticed at once.

    Args:
        names: weight -> its name in messages.
    """

    def __init__(self, names: Mapping[Tensor, str]) -> None:
        self._names = names
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

    def look(self) -> None:
        """Compare the samples on devices, for ``refuse_overwritten`` to tell."""
        for samples in self._samples.values():
            samples.look()

    def refuse_overwritten(self, call: str, *, wait: bool) -> None:
        """Raise ValueError if a step has thrown away values before that could be known.

        That is, if ``look`` found other values; without waiting, it is told some steps late.
        """
        found = [w for samples in self._samples.values() for w in samples.read(wait=wait)]
        if found:
            raise ValueError(
                f"{call}: some steps ago the values of {self._listed(found)} were not those that "
                "the optimizer had written, and have been thrown away: write them again and call "
                "optimizer.adopt_weights() before the next step, or call it now to go on without "
                "them"
            )

    def refuse_replaced(self, call: str, rewrite: Rewrite, *, wait: bool) -> None:
        """Raise ValueError if there are ``replaced`` weights that ``call`` would throw away."""
        found = self.replaced(rewrite, wait=wait)
        if found:
            raise ValueError(
                f"{call}: the values of {self._listed(found)} are not those that the optimizer "
                "wrote, and would be thrown away: load weights before building the optimizer or "
                "loading its state, or call optimizer.adopt_weights() after"
            )

    @torch.no_grad()
    def replaced(self, rewrite: Rewrite, *, wait: bool) -> list[Tensor]:
        """The weights that hold other values than x, which is written anew into the others.

        Without waiting, some of those on devices may be missing, which ``look`` finds.
        """
        differing = [w for s in self._samples.values() for w in s.differing()] if wait else []
        found = {w: w.detach().clone() for w in dict.fromkeys((*self._touched(), *differing))}
        if not found:
            return []
        rewrite(found)
        replaced = [weight for weight, values in found.items() if not _are_alike(values, weight)]
        for weight in replaced:
            weight.copy_(found[weight])
        return replaced

    def forget(self) -> None:
        """Take back what ``look`` has found."""
        for samples in self._samples.values():
            samples.forget()

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Whatever is written to the weights inside; after, they hold what they held before."""
        held = {weight: weight.detach().clone() for weight in self._versions}
        untouched = held.keys() - set(self._touched())
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, values in held.items():
                    weight.copy_(values)
            self._versions.update((weight, weight._version) for weight in untouched)

    def _touched(self) -> list[Tensor]:
        """The weights that were written to since, though perhaps with what they held before."""
        moved = {weight for samples in self._samples.values() for weight in samples.moved()}
        found = {weight: weight in moved or self._is_written(weight) for weight in self._versions}
        here = [weight for weight in found if weight.device.type == "cpu"]
        if any(is_dtensor(weight) for weight in here):
            flags = agreed([torch.tensor(found[weight]) for weight in here], here)
            found |= dict.fromkeys(chosen(here, flags), True)
        return [weight for weight, is_touched in found.items() if is_touched]

    def _is_written(self, weight: Tensor) -> bool:
        if weight._version != self._versions[weight]:
            return True
        return weight in self._copies and self._copies[weight].differs(weight)

    def _listed(self, weights: list[Tensor]) -> str:
        return first_few([self._names[weight] for weight in weights])

    def __getstate__(self) -> dict[str, Any]:
        unknown = dict.fromkeys(self._versions, -1)  # copies count from 0 again
        return {"_names": self._names, "_versions": unknown, "_copies": {}, "_samples": {}}


class MemoryGuard:
    """Looks where weights and their y are, which others may change after the optimizer was built.

    Args:
        float_weights: weight -> y.
        names: weight -> its name.
    """

    def __init__(self, float_weights: Mapping[Tensor, Tensor], names: Mapping[Tensor, str]) -> None:
        self._float_weights, self._names = float_weights, names
        self._places: list[int] = []  # where the weights were when none lay in another's memory

    def refuse_misplaced(self, call: str) -> None:
        """Raise ValueError, named after ``call``, if weights moved away from y or into memory."""
        found = [
            self._names[weight]
            for weight, y in self._float_weights.items()
            if weight.dtype != y.dtype or weight.device != y.device or weight.shape != y.shape
        ]
        if found:
            raise ValueError(
                f"{call}: {first_few(found)} changed dtype, device or shape after the optimizer "
                "was built: convert the model first, then build the optimizer and load its state"
            )
        places = [weight.data_ptr() for weight in self._float_weights if not is_dtensor(weight)]
        if places != self._places:  # mostly nobody has moved one: then none shares memory either
            self.refuse_shared(call, self._float_weights, self._names)
            self._places = places

    def refuse_shared(
        self, call: str, weights: Iterable[Tensor], names: Mapping[Tensor, str]
    ) -> None:
        """Raise ValueError if ``weights`` lie in the memory of each other, or in that of some y."""
        order = {weight: place for place, weight in enumerate(weights)}
        pairs = overlaps([*order, *self._float_weights.values()])
        later = [max(pair, key=lambda tensor: order.get(tensor, -1)) for pair in pairs]
        found = [names[weight] for weight in dict.fromkeys(later)]
        if found:
            raise ValueError(
                f"{call}: {first_few(found)} lies in the memory of other weights, or of the float "
                "weights: give it its own, weight.data = weight.data.clone(); to tie layers, have "
                "them hold one parameter"
            )


class _Copy:
    """What a weight on the CPU held, or this process's part of it."""

    def __init__(self) -> None:
        self._values = torch.empty(0)
        self._stride: tuple[int, ...] | None = None  # of the weight, when it was copied

    def take(self, weight: Tensor) -> None:
        here, values = local_part(weight), self._values
        is_alike = here.dtype == values.dtype and here.shape == values.shape
        if not is_alike or here.stride() != self._stride:
            self._values, self._stride = here.clone(), here.stride()
        else:
            values.copy_(here)

    def differs(self, weight: Tensor) -> bool:
        """Whether a single bit does; numpy takes a third of the time that ``torch.equal`` takes."""
        return not numpy.array_equal(_bits(local_part(weight)), _bits(self._values))


def _bits(values: Tensor) -> Any:
    """The tensor as an array of whole numbers, which tells -0 from 0 and knows no NaN."""
    return values.view(WHOLE_NUMBERS[values.dtype.itemsize]).numpy()


def _are_alike(first: Tensor, second: Tensor) -> bool:
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
