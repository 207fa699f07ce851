"""Reductions over a row of weights of which this process may hold only a shard.

The sums, maxima and histograms of a projection go through a ``Shards``: ``WHOLE`` for a row that
is here in full, which costs nothing, and one that asks the other processes for a sharded row
(``dtensors.py``). So each equation is written once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


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


def row_maxima(a: Tensor, shards: Shards) -> Tensor:
    """The largest of each row of non-negative numbers; a shard may be empty."""
    return shards.largest(a.amax(1) if a.shape[1] else a.new_zeros(a.shape[0]))


def row_minima(a: Tensor, shards: Shards) -> Tensor:
    """The smallest of each row; a shard may be empty."""
    return -shards.largest(-a.amin(1) if a.shape[1] else a.new_full((a.shape[0],), -math.inf))
