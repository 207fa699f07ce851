"""Models inside of what wraps them for training: DistributedDataParallel and torch.compile."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

COMPILED = "_orig_mod"  # what torch.compile's wrapper of a module calls it


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside of wrappers, whose names of layers have no prefix."""
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        inner = model.module
    else:  # by its attribute: importing torch.compile's class would take a second
        inner = getattr(model, COMPILED, None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else model


def plain_name(name: str) -> str:
    """The name of a module or tensor as it is in a model of which no part is compiled."""
    return ".".join(part for part in name.split(".") if part != COMPILED)
