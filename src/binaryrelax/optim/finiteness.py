"""Watches the float weights for NaN and infinity without making the device wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from binaryrelax.quantizers.dtensors import is_dtensor, known_to_all, local_part
from binaryrelax.quantizers.validation import has_non_finite

Weights = dict[Tensor, str]  # weight -> its name
CALLS_BETWEEN_READS = 16  # copying the flags takes longer than a small step's launches


class FinitenessWatch:
    """Finds non-finite weights: at once on the CPU, some steps late on a device, but never not.

    On a device, ``look`` raises a flag there. ``read`` without waiting copies the flags to the host
    in the background and looks at the copy that has arrived; with waiting, it is certain. What one
    process finds in its shard of a weight is found by all at the same step: an error in one of them
    alone would leave the others waiting for it.
    """

    def __init__(self, names: Weights) -> None:
        self._names = names
        self._flags: dict[torch.device, _DeviceFlags] = {}

    def flags_on(self, device: torch.device) -> tuple[Tensor, list[Tensor]]:
        """The flags of a device, and the weights they stand for: others may raise them too."""
        if device not in self._flags:
            self._flags[device] = _DeviceFlags([w for w in self._names if w.device == device])
        return self._flags[device].bad, self._flags[device].weights

    def look(self, weights: Iterable[Tensor] | None = None) -> None:
        """Check the weights, all if not given, as they are now.

        Raises:
            ValueError: a weight on the CPU is not finite; its name is given.
        """
        by_device: dict[torch.device, list[Tensor]] = {}
        for weight in self._names if weights is None else weights:
            by_device.setdefault(weight.device, []).append(weight)
        for device, here in by_device.items():
            if device.type == "cpu":
                flags = _agreed([has_non_finite(w) for w in here], here)
                self._refuse(_chosen(here, flags))
            else:
                self.flags_on(device)
                self._flags[device].look(here)

    def look_at_gradients(self) -> None:
        """Check the gradients of the weights on the CPU, where looking does not mean waiting.

        Raises:
            ValueError: one is not finite; its weight is named.
        """
        here = [weight for weight in self._names if weight.device.type == "cpu"]
        flags = [_has_bad_gradient(weight) for weight in here]
        bad = _chosen(here, _agreed(flags, here)) if here else []
        if bad:
            raise ValueError(
                f"BinaryRelax: the gradients of {self._listed(bad)} are NaN or infinite; nothing "
                "has moved: look at the loss and the learning rate"
            )

    def read(self, *, wait: bool) -> None:
        """Report what ``look`` has found on devices.

        Raises:
            ValueError: a weight was not finite; its name is given.
        """
        for flags in self._flags.values():
            self._refuse(flags.read(wait=wait))

    def forget(self) -> None:
        """Take back what was found: the weights have been replaced by good ones."""
        for flags in self._flags.values():
            flags.clear()

    def restart(self) -> None:
        """Watch anew: other weights have joined."""
        self._flags.clear()

    def _refuse(self, bad: list[Tensor]) -> None:
        if bad:
            raise ValueError(
                f"BinaryRelax: the float weights of {self._listed(bad)} became NaN or infinite; "
                "look at the loss, the gradients and the learning rate; base's state and the "
                "other parameters may have moved: load a checkpoint to go on"
            )

    def _listed(self, weights: list[Tensor]) -> str:
        return ", ".join(self._names[weight] for weight in weights)

    def __getstate__(self) -> dict[str, Any]:
        return {"_names": self._names, "_flags": {}}  # events and pinned memory do not travel


class _DeviceFlags:
    """One flag per weight on a device, and their copy on the way to the host."""

    def __init__(self, weights: list[Tensor]) -> None:
        self.weights = weights
        self.places = {weight: place for place, weight in enumerate(weights)}
        self.is_shared = any(is_dtensor(w) for w in weights)
        self.bad = torch.zeros(len(weights), dtype=torch.bool, device=weights[0].device)
        self.host = torch.zeros(len(weights), dtype=torch.bool, device="cpu").pin_memory()
        self.arrived: torch.cuda.Event | None = None
        self.calls = 0

    def look(self, weights: list[Tensor]) -> None:
        here = [part if part.numel() else part.new_zeros(1) for part in map(local_part, weights)]
        largest = torch._foreach_norm(here, torch.inf)
        finite = torch.stack([x.to(torch.float64) for x in largest]).isfinite()
        bad = _agreed(list(finite.logical_not()), weights)
        if len(weights) == len(self.weights):
            self.bad.logical_or_(bad)
            return
        for weight, is_bad in zip(weights, bad, strict=True):
            self.bad[self.places[weight]].logical_or_(is_bad)

    def read(self, *, wait: bool) -> list[Tensor]:
        if wait:
            return _chosen(self.weights, self.bad.cpu())
        self.calls += 1
        if self.calls % CALLS_BETWEEN_READS:
            return []
        if self.arrived and self.is_shared:  # all processes must see the flags at the same step
            self.arrived.synchronize()
        if self.arrived is None or self.arrived.query():  # type: ignore[no-untyped-call]
            found = _chosen(self.weights, self.host) if self.arrived else []
            self.host.copy_(self.bad, non_blocking=True)
            self.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.arrived.record()
            return found
        return []

    def clear(self) -> None:
        self.bad.zero_()  # in place: a captured graph writes to this very tensor
        self.arrived = None


def _has_bad_gradient(weight: Tensor) -> Tensor:
    gradient = weight.grad
    if gradient is None or gradient.layout is not torch.strided:  # what sparse ones do shows later
        return torch.zeros((), dtype=torch.bool, device=weight.device)
    return has_non_finite(gradient)


def _agreed(flags: list[Tensor], weights: list[Tensor]) -> Tensor:
    """One flag per weight, raised if it is on any process: one exchange for each mesh."""
    meshes: dict[object, list[int]] = {}
    for index, weight in enumerate(weights):
        if is_dtensor(weight):
            meshes.setdefault(weight.device_mesh, []).append(index)
    for indices in meshes.values():
        agreed = known_to_all(torch.stack([flags[i] for i in indices]), weights[indices[0]])
        for index, flag in zip(indices, agreed, strict=True):
            flags[index] = flag
    return torch.stack(flags)


def _chosen(weights: list[Tensor], flags: Tensor) -> list[Tensor]:
    return [w for w, is_bad in zip(weights, flags.tolist(), strict=True) if is_bad]
