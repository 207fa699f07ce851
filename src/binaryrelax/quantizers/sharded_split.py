"""Projection of weights that are spread over processes, without bringing them together if possible.

The scale of a whole layer comes from sums, maxima or histograms over all shards; rows that no
shard cuts are projected where they are. What is left needs the whole weight, which is gathered for
as long as it takes to project it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from binaryrelax.quantizers.dtensors import local_part, sharded_dims, shards_of, whole
from binaryrelax.quantizers.granularity import PerChannel, PerGroup, PerLayer

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

    from binaryrelax.quantizers.quantizer import Quantizer


def split_dtensor(quantizer: Quantizer, w: DTensor) -> tuple[DTensor, DTensor]:
    """Scale and codes of ``w``; the codes lie where the weights do.

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
    """Scale and codes without gathering the weights, if there is a way."""
    local, granularity = local_part(w), type(quantizer.granularity)  # others may scale otherwise
    if granularity is PerLayer:
        found = quantizer.split_shard(local.reshape(1, -1).contiguous(), shards_of(w))
        if found is None:
            return None
        scale, codes = found
        return _replicated(scale.reshape(()), w), _like(w, codes)
    cut_dims = {getattr(w.placements[i], "dim", None) for i in sharded_dims(w)}
    if granularity not in (PerChannel, PerGroup) or cut_dims != {0}:
        return None
    scale, codes = quantizer.split_finite(local)
    per_row = w.shape[1:] if granularity is PerGroup else [1] * (w.dim() - 1)
    scale = scale if local.numel() else local.new_zeros(0, *per_row)
    return _placed(scale, w, torch.Size([w.shape[0], *per_row])), _like(w, codes)


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
