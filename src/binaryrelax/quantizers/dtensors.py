"""Weights that are spread over processes: DTensors, as ``fully_shard`` makes them.

Every process that holds a part calls the same functions in the same order. Plain tensors may be
given everywhere.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, distributed

from binaryrelax.quantizers.shards import WHOLE, Shards

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def is_dtensor(w: Tensor) -> TypeGuard[DTensor]:
    """Whether ``w`` is spread over processes."""
    module = sys.modules.get("torch.distributed.tensor")  # unless imported, there is no DTensor
    return module is not None and isinstance(w, module.DTensor)


def local_part(w: Tensor) -> Tensor:
    """The weights that this process holds, sharing memory with ``w``."""
    w = w.detach()
    return w.to_local() if is_dtensor(w) else w


def whole(w: Tensor) -> Tensor:
    """All weights, gathered from the processes if ``w`` is spread over them."""
    if not is_dtensor(w):
        return w.detach()
    here, meeting = local_part(w).device, w.device_mesh.device_type  # differ under CPU offload
    everything: Tensor = w.detach().to(meeting).full_tensor()  # type: ignore[attr-defined]
    return everything.to(here)


def shards_of(w: Tensor) -> Shards:
    """How to join what the shards of ``w`` contribute."""
    if not is_dtensor(w) or not sharded_dims(w):
        return WHOLE
    return MeshShards(w.device_mesh, sharded_dims(w), w.numel())


def known_to_all(flags: Tensor, w: Tensor) -> Tensor:
    """Flags that are raised if they are on any process that holds a part of ``w``."""
    if not is_dtensor(w):
        return flags
    mesh = w.device_mesh
    return MeshShards(mesh, tuple(range(mesh.ndim)), w.numel()).largest(flags)


@dataclass(frozen=True)
class MeshShards:
    """Shards along some dimensions of a device mesh.

    What is small is gathered and then reduced in the order of the ranks, so that every process
    has the same bits.
    """

    mesh: DeviceMesh
    dims: tuple[int, ...]
    size: int

    def num_weights(self, a: Tensor) -> int:
        return self.size

    def total(self, x: Tensor) -> Tensor:
        for dim in self.dims:
            x = self._of_each(x, dim).sum(0)
        return x

    def largest(self, x: Tensor) -> Tensor:
        for dim in self.dims:
            x = self._of_each(x, dim).amax(0)
        return x

    def gathered(self, x: Tensor) -> Tensor:
        for dim in self.dims:
            lengths = self._of_each(torch.tensor([len(x)], device=x.device), dim).flatten().tolist()
            padded = torch.cat([x, x.new_zeros(max(lengths) - len(x))])
            each = self._of_each(padded, dim)
            x = torch.cat([part[:length] for part, length in zip(each, lengths, strict=True)])
        return x

    def _of_each(self, x: Tensor, dim: int) -> Tensor:
        """The equally shaped ``x`` of each process along a mesh dimension, stacked."""
        sent = x.to(self.mesh.device_type, torch.uint8 if x.dtype == torch.bool else x.dtype)
        each = [torch.empty_like(sent) for _ in range(self.mesh.size(dim))]
        distributed.all_gather(each, sent.contiguous(), group=self.mesh.get_group(dim))
        return torch.stack(each).to(x.device, x.dtype)


def sharded_dims(w: DTensor) -> tuple[int, ...]:
    """The mesh dimensions along which processes hold different weights."""
    return tuple(i for i, p in enumerate(w.placements) if not p.is_replicate())
