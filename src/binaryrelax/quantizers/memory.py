"""Tensors that lie in the memory of each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from torch import Tensor

from binaryrelax.quantizers.dtensors import is_dtensor


def overlaps(tensors: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Pairs of tensors that share memory; those that processes share, and empty ones, do not."""
    plain = [t for t in tensors if t.numel() and not is_dtensor(t) and not t.is_meta]
    ordered = sorted(plain, key=Tensor.data_ptr)
    return [(a, b) for a, b in pairwise(ordered) if a.device == b.device and b.data_ptr() < _end(a)]


def _end(tensor: Tensor) -> int:
    """The address behind the tensor's last entry."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    entries = 1 + sum((size - 1) * abs(stride) for size, stride in sizes)
    return tensor.data_ptr() + entries * tensor.element_size()
