"""Watches the float weights for NaN and infinity without making the device wait."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from binaryrelax.quantizers.validation import all_finite

Weights = dict[Tensor, str]  # weight -> its name


class FinitenessWatch:
    """Finds non-finite weights: at once on the CPU, some steps late on a device, but never not.

    On a device, ``look`` raises a flag there. ``read`` without waiting copies the flags to the host
    in the background and looks at the copy that has arrived; with waiting, it is certain.
    """

    def __init__(self, names: Weights) -> None:
        self._names = names
        self._flags: dict[torch.device, _DeviceFlags] = {}

    def look(self) -> None:
        """Check all weights as they are now.

        Raises:
            ValueError: a weight on the CPU is not finite; its name is given.
        """
        by_device: dict[torch.device, list[Tensor]] = {}
        for weight in self._names:
            by_device.setdefault(weight.device, []).append(weight)
        for device, weights in by_device.items():
            if device.type == "cpu":
                self._refuse([w for w in weights if not all_finite(w)])
            else:
                if device not in self._flags:
                    self._flags[device] = _DeviceFlags(weights)
                self._flags[device].look()

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
            names = ", ".join(self._names[w] for w in bad)
            raise ValueError(
                f"BinaryRelax: the float weights of {names} became NaN or infinite; "
                "look at the loss, the gradients and the learning rate"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"_names": self._names, "_flags": {}}  # events and pinned memory do not travel


class _DeviceFlags:
    """One flag per weight on a device, and their copy on the way to the host."""

    def __init__(self, weights: list[Tensor]) -> None:
        self.weights = weights
        self.bad = torch.zeros(len(weights), dtype=torch.bool, device=weights[0].device)
        self.host = torch.zeros(len(weights), dtype=torch.bool, device="cpu").pin_memory()
        self.arrived: torch.cuda.Event | None = None

    def look(self) -> None:
        largest = torch._foreach_norm([w.detach() for w in self.weights], torch.inf)
        finite = torch.stack([x.to(torch.float64) for x in largest]).isfinite()
        self.bad.logical_or_(finite.logical_not())

    def read(self, *, wait: bool) -> list[Tensor]:
        if wait:
            return self._chosen(self.bad.cpu())
        if self.arrived is None or self.arrived.query():  # type: ignore[no-untyped-call]
            found = self._chosen(self.host) if self.arrived else []
            self.host.copy_(self.bad, non_blocking=True)
            self.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.arrived.record()
            return found
        return []

    def clear(self) -> None:
        self.bad.zero_()  # in place: a captured graph writes to this very tensor
        self.arrived = None

    def _chosen(self, flags: Tensor) -> list[Tensor]:
        return [w for w, is_bad in zip(self.weights, flags.tolist(), strict=True) if is_bad]
