"""Models inside of what wraps them for training: DistributedDataParallel and torch.compile."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside of wrappers, whose names of layers have no prefix."""
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        inner = model.module
    else:  # by its attribute: importing torch.compile's class would take a second
        inner = getattr(model, "_orig_mod", None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else model
