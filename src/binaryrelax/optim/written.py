"""Notices weights that somebody else has written to since the optimizer wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from binaryrelax.optim.arguments import first_few
from binaryrelax.quantizers.dtensors import known_to_all, local_part

Names = Mapping[Tensor, str]


class WrittenWeights:
    """Which weights have been written to; knowing it takes no look at the device.

    Torch counts how often a tensor is written to. Who writes to ``weight.data`` is not counted.
    """

    def __init__(self) -> None:
        self._versions: dict[Tensor, int] = {}

    def remember(self, weights: Iterable[Tensor]) -> None:
        """The weights are as the optimizer wants them."""
        self._versions.update((weight, weight._version) for weight in weights)

    def touched(self) -> list[Tensor]:
        """The weights that were written to since, though perhaps with what they held before."""
        return [weight for weight, known in self._versions.items() if weight._version != known]

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
            self.remember(untouched)

    def __getstate__(self) -> dict[str, Any]:
        return {"_versions": dict.fromkeys(self._versions, -1)}  # copies count from 0 again


def refuse_moved(call: str, float_weights: Mapping[Tensor, Tensor], names: Names) -> None:
    """Raise ValueError if weights are no longer where, or of the kind, that their y is."""
    found = [
        names[weight]
        for weight, y in float_weights.items()
        if weight.dtype != y.dtype or weight.device != y.device
    ]
    if found:
        raise ValueError(
            f"{call}: {first_few(found)} changed dtype or device after the optimizer was built: "
            "convert the model first, then build the optimizer and load its state"
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
