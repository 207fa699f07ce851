"""Exact ternary weights: Q = scale * {-1, 0, +1}^n."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.quantizers.averages import kept_means, magnitudes, power_of_two_above
from binaryrelax.quantizers.quantizer import ExactQuantizer
from binaryrelax.quantizers.radix import MOST_WEIGHTS, exact_ternary_cut
from binaryrelax.quantizers.sharded_weights import WHOLE, Shards
from binaryrelax.quantizers.sweep import first_best, running_sums

SORT_BELOW = 1 << 15  # weights; under this, sorting is faster than histograms


@dataclass(frozen=True, repr=False, eq=False)
class Ternary(ExactQuantizer):
    """Exact projection onto scale * {-1, 0, +1}^n.

        t* = argmax_t ||y_[t]||_1^2 / t,   s* = ||y_[t*]||_1 / t*,
        Q* = sign(y_[t*])      (eq. 6)

    where y_[t] keeps the t largest magnitudes. Short rows are sorted in one batch; a long row
    on the CPU is searched through histograms of its bits, exactly and without a sort.

    Args:
        granularity: which weights share a scale; by default all of the layer.

    Examples:
        >>> import torch
        >>> from binaryrelax import Ternary
        >>> scale, codes = Ternary().split(torch.tensor([0.1, -2.0, 0.2, 3.0]))
        >>> scale, codes
        (tensor(2.5000), tensor([ 0., -1.,  0.,  1.]))
        >>> scale * codes  # what project() gives
        tensor([ 0.0000, -2.5000,  0.0000,  2.5000])
    """

    @property
    def codebook(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return split_ternary(rows)

    def split_shard(self, shard: Tensor, shards: Shards) -> tuple[Tensor, Tensor] | None:
        a = magnitudes(shard)
        return _split_by_radix_search(shard, a, shards) if _suits_radix_search(a, shards) else None


def split_ternary(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and codes of eq. 6, one scale per row."""
    a = magnitudes(rows)
    if _suits_radix_search(a, WHOLE):
        return _split_by_radix_search(rows, a, WHOLE)
    kept = _kept_by_sorting(a)
    return kept_means(a, kept).to(rows.dtype), rows.sign().masked_fill_(~kept, 0)


def _suits_radix_search(a: Tensor, shards: Shards) -> bool:
    is_plain = a.device.type == "cpu" and a.dtype == torch.float32
    return is_plain and SORT_BELOW <= shards.num_weights(a) < MOST_WEIGHTS


def _split_by_radix_search(rows: Tensor, a: Tensor, shards: Shards) -> tuple[Tensor, Tensor]:
    cuts, means = zip(*(exact_ternary_cut(row, shards) for row in a), strict=True)
    kept = a >= a.new_tensor(cuts)[:, None]
    return rows.new_tensor(means), rows.sign().masked_fill_(~kept, 0)


def _kept_by_sorting(a: Tensor) -> Tensor:
    """The reference for eq. 6: which weights keep their sign, found by a full sort."""
    descending = a.sort(dim=1, descending=True).values
    sums = running_sums(descending / power_of_two_above(a).to(a.dtype))
    counts = torch.arange(1, a.shape[1] + 1, dtype=torch.float64, device=a.device)
    best = first_best(sums / counts.sqrt())
    cut = descending.gather(1, best)
    return (a >= cut) & (a > 0)
