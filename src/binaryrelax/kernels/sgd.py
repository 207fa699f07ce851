"""The step of plain SGD on y (eq. 10), taken on the way by the first kernel that reads y.

To read y once more, only to find its scale, would cost as much as all else that the kernel does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from binaryrelax.kernels.row_table import RowTable

NUM_STAGES = 8  # a captured graph needs one; memory is hard to get while capturing
ALIGNMENT = 16  # bytes of the widest load
NO_NUMBERS = (0.0, 0.0, 0.0)  # settings for a kernel that takes no step
NO_DESCENT, PLAIN, HEAVY_BALL, NESTEROV = 0, 1, 2, 3  # how y moves, as the kernels know it
_HEAVY_BALL, _NESTEROV = tl.constexpr(HEAVY_BALL), tl.constexpr(NESTEROV)


@triton.jit
def descend(
    y, gradient, velocity, at, inside, lr, momentum, undamped, weight_decay, DESCENT: tl.constexpr
):
    """y <- y - lr * direction, as ``torch.optim.SGD`` does it; returns y, moved or not."""
    weights = tl.load(y + at, mask=inside, other=0.0)
    if DESCENT > 0:
        direction = tl.load(gradient + at, mask=inside, other=0.0) + weight_decay * weights
        if DESCENT >= _HEAVY_BALL:
            before = tl.load(velocity + at, mask=inside, other=0.0)
            after = momentum * before + undamped * direction
            tl.store(velocity + at, after, mask=inside)
            direction = direction + momentum * after if DESCENT == _NESTEROV else after
        weights = weights - lr * direction
        tl.store(y + at, weights, mask=inside)
    return weights


@dataclass(frozen=True)
class Descent:
    """One step of SGD, for the weights of a table of rows in their order.

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

    @property
    def kind(self) -> int:
        """Which of the kernels' ways to move y this is."""
        if not self.velocities:
            return PLAIN
        return NESTEROV if self.nesterov else HEAVY_BALL

    @property
    def numbers(self) -> tuple[float, float, float]:
        """SGD's settings as the kernels take them."""
        return float(self.momentum), 1.0 - self.dampening, float(self.weight_decay)

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where everything lies."""
        tensors = (*self.gradients, *self.velocities, self.lr)
        return tuple([tensor.data_ptr() for tensor in tensors])

    @property
    def is_aligned(self) -> bool:
        """Whether all begin where wide loads can; views into one large buffer may not."""
        tensors = (*self.gradients, *self.velocities)
        return all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in tensors)


class DescentTables:
    """The kernels' arguments for steps of SGD on the weights of a table of rows."""

    def __init__(self, rows: RowTable) -> None:
        self.rows = rows
        self.none = (rows.y, rows.y, rows.zeros(1, torch.float32))
        # A CUDA graph repeats the copies that it was captured with, from memory of their own.
        self._stages: list[Tensor] = []
        self._captured: list[Tensor] = []

    def arguments(self, descent: Descent) -> tuple[Tensor, ...]:
        """Addresses of gradients and velocities, and the learning rate."""
        velocities = descent.velocities or descent.gradients  # of the same size; not read
        addresses = self._addresses(descent.gradients) + self._addresses(velocities)
        table = self._upload(torch.tensor(addresses, device="cpu"))
        return (*table.chunk(2), descent.lr)

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
        is_pinned, size = self.rows.device.type == "cuda", 2 * self.rows.num_rows
        return torch.empty(size, dtype=torch.int64, device="cpu", pin_memory=is_pinned)

    def _addresses(self, tensors: list[Tensor]) -> list[int]:
        """Where each row begins in tensors that are laid out as the weights are."""
        together = zip(self.rows.pairs, tensors, strict=True)
        return [
            tensor.data_ptr() + 4 * pair.row_length * i
            for pair, tensor in together
            for i in range(pair.num_rows)
        ]
