"""Calling a module through torch.compile."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Compiled:
    """A module through torch.compile, for batches of one length.

    The one short batch at the end of an epoch is not worth a second compilation. What cannot be
    compiled is called as it is.

    Args:
        module: what is called.
        length: of the batches that are worth it.
        slower: told if it cannot be compiled, and why.
    """

    def __init__(self, module: nn.Module, *, length: int, slower: Callable[[str], None]) -> None:
        config = torch._dynamo.config  # many networks may be compiled in one process
        config.recompile_limit = max(config.recompile_limit, 64)
        self.plain, self.length, self.slower = module, length, slower
        self.fast = torch.compile(module, dynamic=False)

    def __call__(self, *batch: Tensor) -> Tensor:
        if len(batch[0]) != self.length:
            return self.plain(*batch)
        try:
            return self.fast(*batch)
        except Exception as error:  # dynamo and inductor raise many kinds
            self.slower((str(error) or type(error).__name__).splitlines()[0])
            self.length = 0
            return self.plain(*batch)
