"""The step of plain ``torch.optim.SGD``, as the fused kernels take it in place of base (eq. 10)."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from binaryrelax.optim.device_flags import is_capturing
from binaryrelax.optim.gradient_guard import has_hooks

if TYPE_CHECKING:
    from binaryrelax.kernels.sgd import Descent


def is_plain_sgd(base: Optimizer) -> bool:
    """Whether the kernels know base's step, and nobody would miss base's own."""
    return type(base) is SGD and not has_hooks(base)  # a subclass may step otherwise


class GroupDescents:
    """Finds the step that SGD is about to take with some weights of one parameter group.

    Args:
        place: of the group among base's.
        float_weights: weight -> y, all on one device.
    """

    def __init__(self, place: int, float_weights: dict[Tensor, Tensor]) -> None:
        self._place, self._weights = place, list(float_weights)
        self._ys = list(float_weights.values())
        self._strides = [y.stride() for y in self._ys]
        self._velocities: list[Tensor] | None = None
        self._own_lr = torch.zeros((), dtype=torch.float32, device=self._ys[0].device)
        self._lr_in_own: float | None = None

    def next(self, base: Optimizer) -> Descent | None:
        """The step that base would take now; None if the kernels cannot take it."""
        from binaryrelax.kernels.sgd import Descent

        settings = base.param_groups[self._place]
        numbers = _plain_numbers(settings)
        if numbers is None:
            return None
        gradients = self._laid_out([weight.grad for weight in self._weights])
        has_velocities = numbers["momentum"] != 0  # base makes them in its first step
        velocities = self._known_velocities(base) if has_velocities else []
        if gradients is None or velocities is None:
            return None
        return Descent(gradients, velocities, self._lr(settings["lr"]), **numbers)

    def _known_velocities(self, base: Optimizer) -> list[Tensor] | None:
        """Base's momentum buffers; they mostly are the tensors that they were before."""
        states = [base.state.get(weight) for weight in self._weights]
        found = [state.get("momentum_buffer") if state else None for state in states]
        if any(old is not new for old, new in zip_longest(self._velocities or [], found)):
            sizes = [None if v is None else v.shape for v in found]
            is_whole = sizes == [y.shape for y in self._ys]
            self._velocities = self._laid_out(found) if is_whole else None
        return self._velocities

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


def _plain_numbers(settings: dict[str, Any]) -> dict[str, Any] | None:
    """The settings that the kernels take as plain numbers; None if they cannot."""
    is_plain = not (settings["maximize"] or settings["differentiable"])
    numbers = {key: settings[key] for key in ("momentum", "dampening", "weight_decay", "nesterov")}
    has_tensors = any(isinstance(number, Tensor) for number in numbers.values())
    return numbers if is_plain and not has_tensors else None


def _lies_as(tensor: Tensor, y: Tensor) -> bool:
    """The same without strides that do not matter, those of dimensions of size 1."""
    if tensor.shape != y.shape:
        return False
    strides = zip(tensor.stride(), y.stride(), y.shape, strict=True)
    return all(mine == its for mine, its, size in strides if size > 1)
