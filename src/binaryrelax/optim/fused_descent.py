"""The steps of plain SGD and AdamW, as the fused kernels take them in place of base (eq. 10)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from binaryrelax.optim.device_flags import is_capturing
from binaryrelax.optim.gradient_guard import has_hooks

if TYPE_CHECKING:
    from binaryrelax.kernels.descent import Descent


def has_known_step(base: Optimizer) -> bool:
    """Whether the kernels know base's step, and nobody would miss base's own."""
    return type(base) in (SGD, AdamW) and not has_hooks(base)  # a subclass may step otherwise


class GroupDescents:
    """Finds the step that base is about to take with some weights of one parameter group.

    Args:
        place: of the group among base's.
        float_weights: weight -> y, all on one device.
    """

    def __init__(self, place: int, float_weights: dict[Tensor, Tensor]) -> None:
        self._place, self._weights = place, list(float_weights)
        self._ys = list(float_weights.values())
        self._strides = [y.stride() for y in self._ys]
        self._kept: dict[str, list[Tensor | None]] = {}  # base's state, as it was found last
        self._usable: dict[str, list[Tensor] | None] = {}  # the same, if the kernels can use it
        self._own_lr = torch.zeros((), dtype=torch.float32, device=self._ys[0].device)
        self._lr_in_own: float | None = None

    def next(self, base: Optimizer) -> Descent | None:
        """The step that base would take now; None if the kernels cannot take it."""
        settings = base.param_groups[self._place]
        if settings["maximize"] or settings["differentiable"]:
            return None
        gradients = self._laid_out([weight.grad for weight in self._weights])
        if gradients is None:
            return None
        take = self._next_of_sgd if type(base) is SGD else self._next_of_adamw
        return take(base, settings, gradients)

    def _next_of_sgd(
        self, base: Optimizer, settings: dict[str, Any], gradients: list[Tensor]
    ) -> Descent | None:
        from binaryrelax.kernels.descent import SGDStep

        names = ("momentum", "dampening", "weight_decay", "nesterov")
        numbers = {name: settings[name] for name in names}
        if not _are_plain(numbers.values()):
            return None
        has_velocities = numbers["momentum"] != 0  # base makes them in its first step
        velocities = self._moments(base, "momentum_buffer") if has_velocities else []
        if velocities is None:
            return None
        return SGDStep(gradients, velocities, self._lr(settings["lr"]), **numbers)

    def _next_of_adamw(
        self, base: Optimizer, settings: dict[str, Any], gradients: list[Tensor]
    ) -> Descent | None:
        from binaryrelax.kernels.descent import AdamWStep

        numbers = {name: settings[name] for name in ("betas", "eps", "weight_decay")}
        if settings["amsgrad"] or not _are_plain((*numbers["betas"], *numbers.values())):
            return None
        means, squares = self._moments(base, "exp_avg"), self._moments(base, "exp_avg_sq")
        counts = self._counts(base)
        if means is None or squares is None or counts is None:
            return None
        return AdamWStep(gradients, means, squares, counts, self._lr(settings["lr"]), **numbers)

    def _moments(self, base: Optimizer, key: str) -> list[Tensor] | None:
        """What base keeps beside each weight, laid out as it; mostly the same as the last time."""
        if self._has_changed(base, key):
            found = self._kept[key]
            is_whole = [v is not None and v.shape for v in found] == [y.shape for y in self._ys]
            self._usable[key] = self._laid_out(found) if is_whole else None
        return self._usable[key]

    def _counts(self, base: Optimizer) -> list[Tensor] | None:
        """The counts of steps, if base keeps them on the device: when it is fused or capturable."""
        if self._has_changed(base, "step"):
            found = [
                count
                for count, y in zip(self._kept["step"], self._ys, strict=True)
                if isinstance(count, Tensor)
                and (count.device, count.dtype) == (y.device, torch.float32)
            ]
            self._usable["step"] = found if len(found) == len(self._ys) else None
        return self._usable["step"]

    def _has_changed(self, base: Optimizer, key: str) -> bool:
        """Whether base's state holds other tensors than the last time; keeps those."""
        states = [base.state.get(weight) for weight in self._weights]
        found = [state.get(key) if state else None for state in states]
        before, self._kept[key] = self._kept.get(key, []), found
        return any(old is not new for old, new in zip_longest(before, found)) or (
            key not in self._usable
        )

    def _laid_out(self, tensors: list[Tensor | None]) -> list[Tensor] | None:
        """The tensors, if each lies in memory as its float weight does."""
        alike = [
            tensor
            for tensor, y, stride in zip(tensors, self._ys, self._strides, strict=True)
            if tensor is not None
            and tensor.layout is torch.strided
            and tensor.dtype is torch.float32
            and (tensor.stride() == stride or _lies_as(tensor, y))
        ]
        return alike if len(alike) == len(self._strides) else None

    def _lr(self, lr: float | Tensor) -> Tensor:
        """The learning rate as a scalar on the device, without waiting for it."""
        device = self._own_lr.device
        if isinstance(lr, Tensor) and lr.is_cuda:
            return lr.to(device, torch.float32, non_blocking=True)
        if is_capturing():  # replays must not change that of other steps
            return torch.full((), float(lr), dtype=torch.float32, device=device)
        if self._lr_in_own != float(lr):
            self._lr_in_own = float(lr)
            self._own_lr.fill_(self._lr_in_own)
        return self._own_lr


def _are_plain(numbers: Iterable[object]) -> bool:
    """Whether the kernels can take these settings as numbers."""
    return not any(isinstance(number, Tensor) for number in numbers)


def _lies_as(tensor: Tensor, y: Tensor) -> bool:
    """The same without strides that do not matter, those of dimensions of size 1."""
    if tensor.shape != y.shape:
        return False
    strides = zip(tensor.stride(), y.stride(), y.shape, strict=True)
    return all(mine == its for mine, its, size in strides if size > 1)
