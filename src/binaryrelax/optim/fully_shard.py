"""What ``torch.distributed.fsdp.fully_shard`` asks of those who rewrite weights."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from torch import nn


def sharded_modules(model: nn.Module) -> list[nn.Module]:
    """The modules of ``model`` that ``fully_shard`` was called on."""
    module = sys.modules.get("torch.distributed.fsdp")  # unless imported, there are none
    kind = getattr(module, "FSDPModule", ())
    return [m for m in model.modules() if isinstance(m, kind)]


def drop_gathered_copies(modules: Iterable[nn.Module]) -> None:
    """Have the next forward gather the weights anew.

    After a forward without backward, as in evaluation, ``fully_shard`` keeps the gathered weights
    of the outermost module for the next forward, whatever has been written to the shards since.
    """
    for module in modules:
        module.reshard()  # type: ignore[operator]
