"""Watches the float weights for NaN and infinity without making the device wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from binaryrelax.optim.device_flags import DeviceFlags, agreed, chosen
from binaryrelax.quantizers.sharded_weights import local_part
from binaryrelax.quantizers.validation import has_non_finite

Weights = dict[Tensor, str]  # weight -> its name


class FinitenessWatch:
    """Finds non-finite weights: at once on the CPU, some steps late on a device, but never not.

    On a device, ``look`` raises a flag there. ``refuse_found`` without waiting copies the flags to
    the host in the background and looks at the copy that has arrived; with waiting, it is certain.
    What one process finds in its shard of a weight is found by all at the same step: an error in
    one of them alone would leave the others waiting for it.
    """

    def __init__(self, names: Weights) -> None:
        self._names = names
        self._flags: dict[torch.device, _FinitenessFlags] = {}

    def flags_on(self, device: torch.device) -> tuple[Tensor, list[Tensor]]:
        """The flags of a device, and the weights they stand for: others may raise them too."""
        if device not in self._flags:
            self._flags[device] = _FinitenessFlags([w for w in self._names if w.device == device])
        return self._flags[device].raised, self._flags[device].weights

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
                flags = agreed([has_non_finite(w) for w in here], here)
                self._refuse(chosen(here, flags))
            else:
                self.flags_on(device)
                self._flags[device].look(here)

    def refuse_bad_gradients(self) -> None:
        """Check the gradients of the weights on the CPU, where looking does not mean waiting.

        Raises:
            ValueError: one is not finite; its weight is named.
        """
        here = [weight for weight in self._names if weight.device.type == "cpu"]
        flags = [_has_bad_gradient(weight) for weight in here]
        bad = chosen(here, agreed(flags, here)) if here else []
        if bad:
            raise ValueError(
                f"BinaryRelax: the gradients of {self._listed(bad)} are NaN or infinite; nothing "
                "has moved: look at the loss and the learning rate"
            )

    def refuse_found(self, *, wait: bool) -> None:
        """Report what ``look`` has found on devices; without waiting, what is known so far.

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


class _FinitenessFlags(DeviceFlags):
    """Flags of weights that are NaN or infinite; processes agree when they look."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__(weights)
        self._places = {weight: place for place, weight in enumerate(weights)}

    def look(self, weights: list[Tensor]) -> None:
        here = [part if part.numel() else part.new_zeros(1) for part in map(local_part, weights)]
        largest = torch._foreach_norm(here, torch.inf)
        finite = torch.stack([x.to(torch.float64) for x in largest]).isfinite()
        bad = agreed(list(finite.logical_not()), weights)
        if len(weights) == len(self.weights):
            self.raised.logical_or_(bad)
            return
        for weight, is_bad in zip(weights, bad, strict=True):
            self.raised[self._places[weight]].logical_or_(is_bad)


def _has_bad_gradient(weight: Tensor) -> Tensor:
    gradient = weight.grad
    if gradient is None or gradient.layout is not torch.strided:  # what sparse ones do shows later
        return torch.zeros((), dtype=torch.bool, device=weight.device)
    return has_non_finite(gradient)
