"""The proximal map of BinaryRelax: between the float weights and their projection."""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax.quantizers.sharded_weights import local_part


def mixing_weight(strength: float) -> float:
    """λ/(λ+1), how far eq. 11 goes from y (0) to its projection (1), for any λ in [0, inf]."""
    return 1 - 1 / (1 + strength)


def relax(y: Tensor, projected: Tensor, strength: float) -> Tensor:
    """Proximal map of the squared distance to Q.

        x = argmin_x ||x - y||^2 / 2 + λ/2 dist(x, Q)^2
          = (λ proj_Q(y) + y) / (λ + 1)      (eq. 11)

    λ = 0 returns y and λ = inf returns the projection, both exactly.

    Args:
        y: the float weights.
        projected: their projection onto Q.
        strength: λ, from 0 to inf.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, relax
        >>> y = torch.tensor([1.0, -3.0])
        >>> projected = Binary().project(y)
        >>> for strength in (0, 1, 3, float("inf")):
        ...     print(relax(y, projected, strength))
        tensor([ 1., -3.])
        tensor([ 1.5000, -2.5000])
        tensor([ 1.7500, -2.2500])
        tensor([ 2., -2.])
    """
    wide = torch.promote_types(y.dtype, torch.float32)
    mix = torch.full((), mixing_weight(strength), dtype=wide, device=y.device)
    return _mix(y, projected, mix)


@torch.no_grad()
def relax_(x: Tensor, y: Tensor, projected: Tensor, mix: Tensor) -> None:
    """Write eq. 11 into ``x``; ``mix`` is λ/(λ+1), a scalar that stays on the device."""
    x, y, projected = local_part(x), local_part(y), local_part(projected)  # weight by weight
    if x.dtype in (torch.float32, torch.float64):
        torch.lerp(y, projected, mix.to(x.dtype), out=x)
    else:
        x.copy_(_mix(y, projected, mix))


def _mix(y: Tensor, projected: Tensor, mix: Tensor) -> Tensor:
    wide = torch.promote_types(y.dtype, torch.float32)  # a bfloat16 λ/(λ+1) would be far off
    return torch.lerp(y.to(wide), projected.to(wide), mix.to(wide)).to(y.dtype)
