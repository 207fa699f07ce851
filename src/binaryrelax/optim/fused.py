"""Which weights the fused kernels relax, and doing it; the others are left to the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from binaryrelax.quantizers import Quantizer

if TYPE_CHECKING:
    from binaryrelax.kernels.fused import FusedRelaxation

Flags = Callable[[torch.device], tuple[Tensor, list[Tensor]]]  # raised flags, and whose they are


class FusedWeights:
    """The kernels of all weights that they can relax: those on a CUDA device, in float32.

    Args:
        flags: gives the flags of a device, one per weight, which are raised for weights that are
            not finite; the kernels see that on the way.
    """

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self.forget()

    def __contains__(self, weight: object) -> bool:
        return weight in self._relaxed

    def forget(self) -> None:
        """Find out anew which weights there are, and where."""
        self._groups: dict[torch.device, list[FusedRelaxation]] | None = None
        self._relaxed: dict[Tensor, Tensor] = {}  # weight -> its own memory, which holds x
        self._float: dict[Tensor, Tensor] = {}  # weight -> y
        self.others: dict[Tensor, Tensor] = {}  # weight -> y, of those left to the reference

    def prepare(
        self, float_weights: Mapping[Tensor, Tensor], quantizers: Mapping[Tensor, Quantizer]
    ) -> None:
        """Take over what can be fused; cheap if nothing has changed since the last call."""
        if self._groups is not None and self._are_current():
            return
        self.forget()
        self._groups, self.others = {}, dict(float_weights)
        if not any(weight.is_cuda for weight in float_weights) or find_spec("triton") is None:
            return
        from binaryrelax.kernels.fused import FusedRelaxation, is_fusible

        together: dict[tuple[torch.device, Quantizer], list[Tensor]] = {}
        for weight, y in float_weights.items():
            if weight.is_cuda and is_fusible(weight, y, quantizers[weight]):
                together.setdefault((weight.device, quantizers[weight]), []).append(weight)
        for (device, quantizer), weights in together.items():
            flags, owners = self._flags(device)
            places = {owner: place for place, owner in enumerate(owners)}
            group = FusedRelaxation(
                quantizer,
                [(weight, float_weights[weight]) for weight in weights],
                flags,
                [places[weight] for weight in weights],
            )
            self._groups.setdefault(device, []).append(group)
            for weight in weights:
                self._relaxed[weight], self._float[weight] = weight.data, self.others.pop(weight)

    def relax(self, mix: Mapping[torch.device, Tensor]) -> None:
        """Write x of the weights taken over; ``mix`` is λ/(λ+1), a scalar on each device."""
        for device, groups in (self._groups or {}).items():
            with torch.cuda.device(device):  # kernels go to the current one
                for group in groups:
                    group(mix[device])
        # Autograd must notice that x has changed, as it does when torch itself writes it.
        if self._relaxed:
            torch.autograd.graph.increment_version(list(self._relaxed))

    def show_float_weights(self) -> None:
        """p <- y without a copy: the parameters lend their names to y's memory."""
        for weight, y in self._float.items():
            weight.data = y

    def show_relaxed_weights(self) -> None:
        """p <- x again; y has become what was done to the parameters meanwhile."""
        for weight, x in self._relaxed.items():
            weight.data = x

    def __getstate__(self) -> dict[str, Any]:
        empty = FusedWeights(self._flags)  # tables of addresses do not travel
        return vars(empty)

    def _are_current(self) -> bool:
        groups = (group for groups in (self._groups or {}).values() for group in groups)
        return all(group.is_current() for group in groups)
