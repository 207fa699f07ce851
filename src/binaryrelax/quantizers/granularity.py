"""How many weights share one scale: the whole layer, an output channel, or a run of a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from binaryrelax.quantizers.validation import require_whole


class Granularity(ABC):
    """A partition of a weight into groups of equal size, one scale each.

    The paper has one scale per layer (section 1); the finer partitions solve the same problem
    (eq. 4) once per group.
    """

    @abstractmethod
    def rows(self, w: Tensor) -> Tensor:
        """The weights as (groups, weights per group), in logical order whatever the strides."""

    @abstractmethod
    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        """One scale per group, shaped so that it broadcasts against ``w``."""


@dataclass(frozen=True)
class PerLayer(Granularity):
    """One scale for the whole weight."""

    def rows(self, w: Tensor) -> Tensor:
        return w.reshape(1, -1)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        return scale.reshape(())


@dataclass(frozen=True)
class PerChannel(Granularity):
    """One scale per index of dimension 0, the output channel of Linear and Conv layers."""

    def rows(self, w: Tensor) -> Tensor:
        return _output_rows(w, self)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        return scale.reshape(-1, *[1] * (w.dim() - 1))


@dataclass(frozen=True)
class PerGroup(Granularity):
    """One scale per run of ``size`` weights in a row of ``weight.reshape(out, -1)``."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", require_whole("PerGroup", "size", self.size, low=1))

    def rows(self, w: Tensor) -> Tensor:
        output_rows = _output_rows(w, self)
        if output_rows.shape[1] % self.size:
            raise ValueError(
                f"PerGroup(size={self.size}) does not divide the rows of a weight of shape "
                f"{tuple(w.shape)}: {output_rows.shape[1]} weights each; "
                "choose a divisor, PerChannel() or PerLayer()"
            )
        return output_rows.reshape(-1, self.size)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        # No shape of one entry per group broadcasts against w in general: repeat it instead.
        return scale.repeat_interleave(self.size, output_size=w.numel()).reshape(w.shape)


def _output_rows(w: Tensor, granularity: Granularity) -> Tensor:
    if w.dim() == 0:
        raise ValueError(
            f"{granularity} needs a weight with at least one dimension; use PerLayer()"
        )
    return w.reshape(w.shape[0], -1)
