"""The steps of plain SGD and AdamW on y (eq. 10), taken by the first kernel that reads y.

To read y once more, only to find its scale, would cost as much as all else that the kernel does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from binaryrelax.kernels.row_table import RowTable

NUM_STAGES = 8  # a captured graph needs one; memory is hard to get while capturing
NUM_TABLES = 4  # of addresses, one of each for every row
ALIGNMENT = 16  # bytes of the widest load
NO_NUMBERS = (0.0, 0.0, 0.0, 0.0)  # settings for a kernel that takes no step
NO_DESCENT, PLAIN, HEAVY_BALL, NESTEROV, ADAMW = range(5)  # how y moves, as the kernels know it
_HEAVY_BALL, _NESTEROV = tl.constexpr(HEAVY_BALL), tl.constexpr(NESTEROV)
_ADAMW = tl.constexpr(ADAMW)


@triton.jit
def pace(lr_address, step_counts, row, blend_first, blend_second, DESCENT: tl.constexpr):
    """The learning rate, and what it and the second moment are corrected by (AdamW's bias)."""
    lr = tl.load(lr_address)
    rate = lr
    root = lr
    if DESCENT == _ADAMW:
        step = tl.load(tl.load(step_counts + row).to(tl.pointer_type(tl.float32))).to(tl.float64)
        one = tl.full([], 1.0, tl.float64)
        # blend = 1 - β, which float32 holds nearly exactly, and β^step = exp(step log β).
        lost_first = tl.exp(step * tl.log(one - blend_first))
        lost_second = tl.exp(step * tl.log(one - blend_second))
        rate = (lr.to(tl.float64) / (one - lost_first)).to(tl.float32)
        root = tl.sqrt(one - lost_second).to(tl.float32)
    return lr, rate, root


@triton.jit
def descend(
    y, gradient, first, second, at, inside, lr, rate, root,
    blend_first, blend_second, epsilon, weight_decay, DESCENT: tl.constexpr,
):  # fmt: skip
    """y takes its step, as ``torch.optim`` does it, if there is one; returns the y after.

    For SGD, ``blend_first`` is the momentum and ``blend_second`` 1 - dampening; for AdamW they are
    1 - β of the first and the second moment.
    """
    weights = tl.load(y + at, mask=inside, other=0.0)
    if DESCENT > 0:
        slope = tl.load(gradient + at, mask=inside, other=0.0)
        if DESCENT == _ADAMW:
            mean = tl.load(first + at, mask=inside, other=0.0)
            mean += (slope - mean) * blend_first
            square = tl.load(second + at, mask=inside, other=0.0)
            square = square * (1 - blend_second) + slope * slope * blend_second
            tl.store(first + at, mean, mask=inside)
            tl.store(second + at, square, mask=inside)
            size = tl.div_rn(tl.sqrt_rn(square), root) + epsilon
            weights = weights * (1 - lr * weight_decay) - rate * tl.div_rn(mean, size)
        else:
            weights = _sgd(
                weights, slope, first, at, inside, lr,
                blend_first, blend_second, weight_decay, DESCENT,
            )  # fmt: skip
        tl.store(y + at, weights, mask=inside)
    return weights


@triton.jit
def _sgd(
    weights, slope, velocity, at, inside, lr, momentum, undamped, weight_decay,
    DESCENT: tl.constexpr,
):  # fmt: skip
    direction = slope + weight_decay * weights
    if DESCENT >= _HEAVY_BALL:
        before = tl.load(velocity + at, mask=inside, other=0.0)
        after = momentum * before + undamped * direction
        tl.store(velocity + at, after, mask=inside)
        direction = direction + momentum * after if DESCENT == _NESTEROV else after
    return weights - lr * direction


class Descent(Protocol):
    """One step of an optimizer, for the weights of a table of rows in their order."""

    @property
    def gradients(self) -> list[Tensor]:
        """Laid out as the weights are."""

    @property
    def moments(self) -> Sequence[list[Tensor]]:
        """Up to two of what the optimizer keeps beside each weight; they are changed."""

    @property
    def step_counts(self) -> list[Tensor]:
        """Float32 scalars on the device, which the step counts up; empty if it needs none."""

    @property
    def lr(self) -> Tensor:
        """A float32 scalar on the device."""

    @property
    def kind(self) -> int:
        """Which of the kernels' ways to move y this is."""

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """The settings as the kernels take them."""


@dataclass(frozen=True)
class SGDStep:
    """A step of ``torch.optim.SGD``.

    Args:
        gradients: laid out as the weights are.
        velocities: the momentum buffers, which are changed; empty without momentum.
        lr: a float32 scalar on the device of the weights.
    """

    gradients: list[Tensor]
    velocities: list[Tensor]
    lr: Tensor
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    step_counts: list[Tensor] = field(default_factory=list, init=False)

    @property
    def moments(self) -> Sequence[list[Tensor]]:
        return [self.velocities] if self.velocities else []

    @property
    def kind(self) -> int:
        if not self.velocities:
            return PLAIN
        return NESTEROV if self.nesterov else HEAVY_BALL

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        return float(self.momentum), 1.0 - self.dampening, 0.0, float(self.weight_decay)


@dataclass(frozen=True)
class AdamWStep:
    """A step of ``torch.optim.AdamW``.

    Args:
        gradients: laid out as the weights are.
        means, squares: the two moments, laid out alike, which are changed.
        step_counts: a float32 scalar on the device for each weight, which is counted up.
        lr: a float32 scalar on the device of the weights.
    """

    gradients: list[Tensor]
    means: list[Tensor]
    squares: list[Tensor]
    step_counts: list[Tensor]
    lr: Tensor
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    @property
    def moments(self) -> Sequence[list[Tensor]]:
        return self.means, self.squares

    @property
    def kind(self) -> int:
        return ADAMW

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        first, second = self.betas
        return 1.0 - first, 1.0 - second, float(self.eps), float(self.weight_decay)


def addresses_of(descent: Descent) -> tuple[int, ...]:
    """Where everything lies that a step reads or changes."""
    return tuple(
        [tensor.data_ptr() for tensor in (*_large(descent), *descent.step_counts, descent.lr)]
    )


def is_aligned(descent: Descent) -> bool:
    """Whether all begin where wide loads can; views into one large buffer may not."""
    return all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in _large(descent))


def _large(descent: Descent) -> list[Tensor]:
    return [t for tensors in (descent.gradients, *descent.moments) for t in tensors]


class DescentTables:
    """The kernels' arguments for steps on the weights of a table of rows."""

    def __init__(self, rows: RowTable) -> None:
        self.rows = rows
        self.none = (*[rows.y] * NUM_TABLES, rows.zeros(1, torch.float32))
        together = [(i, j) for i, pair in enumerate(rows.pairs) for j in range(pair.num_rows)]
        self._weight_of_row, place_in_weight = torch.tensor(together, device="cpu").unbind(1)
        self._offsets = place_in_weight * 4 * torch.tensor(rows.lengths, device="cpu")
        # A CUDA graph repeats the copies that it was captured with, from memory of their own.
        self._stages: list[Tensor] = []
        self._captured: list[Tensor] = []

    def arguments(self, descent: Descent) -> tuple[Tensor, ...]:
        """Addresses of gradients, both moments and counts of steps, and the learning rate."""
        filler = [descent.gradients] * (2 - len(descent.moments))  # of the same size; not read
        large = [descent.gradients, *descent.moments, *filler]
        addresses = [self._of_weights(tensors) + self._offsets for tensors in large]
        addresses.append(self._of_weights(descent.step_counts or descent.gradients))
        table = self._upload(torch.cat(addresses))
        return (*table.chunk(NUM_TABLES), descent.lr)

    def is_capturing(self) -> bool:
        """Whether what is done now belongs to a CUDA graph."""
        return self.rows.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def _upload(self, addresses: Tensor) -> Tensor:
        table = torch.empty_like(addresses, device=self.rows.device)
        if self.is_capturing():
            addresses = (self._stages.pop() if self._stages else self._stage()).copy_(addresses)
            self._captured += [addresses, table]
        else:
            self._stages += [self._stage() for _ in range(NUM_STAGES - len(self._stages))]
        return table.copy_(addresses, non_blocking=True)

    def _stage(self) -> Tensor:
        """Memory from which the device copies by itself."""
        is_pinned, size = self.rows.device.type == "cuda", NUM_TABLES * self.rows.num_rows
        return torch.empty(size, dtype=torch.int64, device="cpu", pin_memory=is_pinned)

    def _of_weights(self, tensors: list[Tensor]) -> Tensor:
        """For each row, where the tensor lies that belongs to its weight."""
        assert len(tensors) == len(self.rows.pairs)
        addresses = torch.tensor([tensor.data_ptr() for tensor in tensors], device="cpu")
        return addresses[self._weight_of_row]
