"""Weights that are spread over processes: their sums and maxima, and their projection.

The sums, maxima and histograms of a projection go through a ``Shards``: ``WHOLE`` for a row that
is here in full, which costs nothing, and ``MeshShards``, which asks the other processes, for a row
of which this one holds a part. So each equation is written once.

A sharded weight is a DTensor, as ``fully_shard`` makes them. Every process that holds a part calls
the same functions in the same order. Plain tensors may be given everywhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import torch
from torch import Tensor, distributed

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

    from binaryrelax.quantizers.quantizer import Quantizer


class Shards(Protocol):
    """How to join what each shard of a row contributes; every process gets the same bits.

    All processes that hold a shard call the same methods in the same order.
    """

    def num_weights(self, a: Tensor) -> int:
        """The length of the row of which ``a``, (1, n), is this process's shard."""

    def total(self, x: Tensor) -> Tensor:
        """The sum of ``x`` over the shards."""

    def largest(self, x: Tensor) -> Tensor:
        """The largest ``x`` of the shards."""

    def gathered(self, x: Tensor) -> Tensor:
        """The one-dimensional ``x`` of all shards, one after the other; lengths may differ."""


@dataclass(frozen=True)
class Whole:
    """Rows that this process holds in full."""

    def num_weights(self, a: Tensor) -> int:
        return a.shape[1]

    def total(self, x: Tensor) -> Tensor:
        return x

    def largest(self, x: Tensor) -> Tensor:
        return x

    def gathered(self, x: Tensor) -> Tensor:
        return x


WHOLE: Shards = Whole()


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


def row_maxima(a: Tensor, shards: Shards) -> Tensor:
    """The largest of each row of non-negative numbers; a shard may be empty."""
    return shards.largest(a.amax(1) if a.shape[1] else a.new_zeros(a.shape[0]))


def row_minima(a: Tensor, shards: Shards) -> Tensor:
    """The smallest of each row; a shard may be empty."""
    return -shards.largest(-a.amin(1) if a.shape[1] else a.new_full((a.shape[0],), -math.inf))


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


def sharded_dims(w: DTensor) -> tuple[int, ...]:
    """The mesh dimensions along which processes hold different weights."""
    return tuple(i for i, p in enumerate(w.placements) if not p.is_replicate())


def split_dtensor(quantizer: Quantizer, w: DTensor) -> tuple[DTensor, DTensor]:
    """Scale and codes of ``w``; the codes lie where the weights do.

    What cannot be projected shard by shard is gathered for as long as it takes to project it.

    Raises:
        ValueError: the processes hold summands of the weights, not weights.
    """
    if any(p.is_partial() for p in w.placements):
        raise ValueError(
            f"{quantizer!r}: weights placed as {w.placements} are sums not yet taken; "
            "redistribute them to Shard or Replicate first"
        )
    if not sharded_dims(w):
        scale, codes = quantizer.split_finite(local_part(w))
        return _replicated(scale, w), _like(w, codes)
    found = _split_shards(quantizer, w)
    if found is not None:
        return found
    scale, codes = quantizer.split_finite(whole(w))
    mine = local_part(_replicated(codes, w).redistribute(placements=w.placements))
    return _replicated(scale, w), _like(w, mine.clone())  # a view would keep all codes alive


def _split_shards(quantizer: Quantizer, w: DTensor) -> tuple[DTensor, DTensor] | None:
    """Scale and codes without gathering the weights, if there is a way.

    The scale of a whole layer comes from sums, maxima or histograms over all shards; rows that no
    shard cuts are projected where they are.
    """
    local, granularity = local_part(w), quantizer.granularity
    if not granularity.is_ours:  # it may shape its scales otherwise
        return None
    if granularity.is_one_scale:
        found = quantizer.split_shard(local.reshape(1, -1).contiguous(), shards_of(w))
        if found is None:
            return None
        scale, codes = found
        return _replicated(scale.reshape(()), w), _like(w, codes)
    cut_dims = {getattr(w.placements[i], "dim", None) for i in sharded_dims(w)}
    if not granularity.is_within_rows or cut_dims != {0}:
        return None
    scale, codes = quantizer.split_finite(local)
    shape = granularity.scale_shape(w.shape)
    scale = scale if local.numel() else local.new_zeros(0, *shape[1:])
    return _placed(scale, w, shape), _like(w, codes)


def _like(w: DTensor, codes: Tensor) -> DTensor:
    """Codes of this process's weights as a DTensor like ``w``, also in memory format."""
    local = local_part(w)
    codes = codes.reshape(local.shape)
    if codes.stride() != local.stride():
        codes = torch.empty_like(local).copy_(codes)
    return _dtensor(codes, w.device_mesh, w.placements, shape=w.shape, stride=w.stride())


def _placed(x: Tensor, w: DTensor, shape: torch.Size) -> DTensor:
    """This process's part of a contiguous DTensor of that shape, cut as ``w`` is."""
    stride = torch.empty(shape, device="meta").stride()
    return _dtensor(x, w.device_mesh, w.placements, shape=shape, stride=stride)


def _replicated(x: Tensor, w: DTensor) -> DTensor:
    from torch.distributed.tensor import Replicate

    return _dtensor(x, w.device_mesh, [Replicate()] * w.device_mesh.ndim)


def _dtensor(
    x: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], **of_all: Any
) -> DTensor:
    from torch.distributed.tensor import DTensor

    made = DTensor.from_local(x, mesh, placements, run_check=False, **of_all)
    return made.to(x.device)  # type: ignore[return-value]  # back from the mesh, if offloaded
