"""b-bit weights by one iteration of Lloyd's algorithm: a heuristic."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from binaryrelax.quantizers.assignment import best_scale, finish_split, nearest_levels
from binaryrelax.quantizers.averages import magnitudes
from binaryrelax.quantizers.levels import level_tensor, uniform_codebook
from binaryrelax.quantizers.quantizer import Quantizer
from binaryrelax.quantizers.sharded_weights import WHOLE, Shards, row_maxima
from binaryrelax.quantizers.validation import require_whole


@dataclass(frozen=True, repr=False)
class OneStepLloyd(Quantizer):
    """Heuristic projection onto the levels of ``Uniform(bits)``, as section 2.1 proposes.

    From s_0 = max|y| / q_m: one assignment of levels, then one least-squares scale. It is cheap. At
    more than 2 bits it is far from the optimum: ``Uniform`` is the exact projection.

    Args:
        bits: from 2 to 8.
        granularity: which weights share a scale; by default all of the layer.

    Raises:
        ValueError: ``bits`` is not a whole number from 2 to 8.

    Examples:
        >>> import torch
        >>> from binaryrelax import OneStepLloyd, Uniform, distance
        >>> w = torch.linspace(-1, 1, 100) ** 3  # many small weights, few large
        >>> distance(w, OneStepLloyd(bits=3)), distance(w, Uniform(bits=3))
        (tensor(0.7866), tensor(0.7058))
    """

    bits: int = field()

    def __post_init__(self) -> None:
        super().__post_init__()
        bits = require_whole("OneStepLloyd", "bits", self.bits, low=2, high=8)
        object.__setattr__(self, "bits", bits)

    @property
    def codebook(self) -> tuple[float, ...]:
        return uniform_codebook(self.bits)

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.split_shard(rows, WHOLE)

    def split_shard(self, shard: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
        a = magnitudes(shard)
        levels = level_tensor(self.codebook, shard.dtype, shard.device)
        start = row_maxima(a, shards).double() / levels[-1]
        codes = nearest_levels(a, start, levels)
        return finish_split(shard, codes, best_scale(a, codes, shards), shards)
