"""What every quantizer is: a projection onto Q = {scale * codes} that can name both factors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import cached_property

import torch
from torch import Tensor

from binaryrelax.quantizers.granularity import Granularity, PerLayer
from binaryrelax.quantizers.validation import all_finite

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True, repr=False)
class Quantizer(ABC):
    """Projection onto Q = {scale * codes : scale >= 0, codes from the codebook}.

    x = argmin_{z in Q} ||z - y||^2      (eq. 3), solved as (scale, codes) in eq. 4

    Training uses the product and packing stores the factors, so both come from one ``split``.
    A subclass states its ``codebook`` and splits rows; granularity, memory format and bad input
    are handled here.
    """

    granularity: Granularity = field(default=PerLayer(), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.granularity, Granularity):
            raise ValueError(
                f"{type(self).__name__}(granularity={self.granularity!r}): "
                "granularity must be PerLayer(), PerChannel() or PerGroup(size)"
            )

    def __repr__(self) -> str:
        own = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self)[1:]]
        shared = [] if self.granularity == PerLayer() else [f"granularity={self.granularity!r}"]
        return f"{type(self).__name__}({', '.join(own + shared)})"

    @property
    @abstractmethod
    def codebook(self) -> tuple[float, ...]:
        """The codes, signed and increasing."""

    @cached_property  # not a plain property: Uniform(bits=...) has a field of this name
    def bits(self) -> int:
        """Bits per code in the canonical layout, scales not counted."""
        return math.ceil(math.log2(len(self.codebook)))

    @abstractmethod
    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Scale (one per row) and codes (like ``rows``), both in the rows' dtype.

        ``rows`` is (groups, weights per group), finite and not empty. Nothing here may wait for
        the device: ``optimizer.step()`` calls it.
        """

    def split(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """The factors of the projection of ``w``.

        Returns:
            scale: in w's dtype, broadcastable against w.
            codes: w's shape, dtype and memory format, with values from the codebook.

        Raises:
            ValueError: w is not a floating-point tensor, or holds NaN or infinity.
        """
        self.check(w)
        return self.split_finite(w)

    def project(self, w: Tensor) -> Tensor:
        """The point of Q nearest to ``w`` (eq. 3), in w's dtype and memory format.

        Raises:
            ValueError: w is not a floating-point tensor, or holds NaN or infinity.
        """
        self.check(w)
        return self.project_finite(w)

    @torch.no_grad()
    def split_finite(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """``split`` of weights known to be finite: no check, so nothing waits for the device."""
        if w.numel() == 0:
            return w.new_zeros(()), w.clone()
        rows = self.granularity.rows(w).contiguous()  # strides must not change the order of sums
        scale, codes = self.split_rows(rows)
        codes = codes.reshape(w.shape)
        if codes.stride() != w.stride():
            codes = torch.empty_like(w).copy_(codes)
        return self.granularity.broadcast(scale, w), codes

    @torch.no_grad()
    def project_finite(self, w: Tensor) -> Tensor:
        """``project`` of weights known to be finite: no check, so nothing waits for the device."""
        scale, codes = self.split_finite(w)
        return codes.mul_(scale)  # in this order, to keep the memory format of the codes

    def check(self, w: Tensor) -> None:
        """Raise ValueError if ``w`` cannot be projected; waits for the device."""
        if w.dtype not in DTYPES:
            raise ValueError(f"{self!r}: weights must be floating point ({DTYPES}), not {w.dtype}")
        if max(self.codebook) > torch.finfo(w.dtype).max:
            raise ValueError(f"{self!r}: code {max(self.codebook):g} does not fit into {w.dtype}")
        if not all_finite(w):
            num_bad = int(w.numel() - torch.isfinite(w).sum())
            raise ValueError(
                f"{self!r}: {num_bad} of {w.numel()} weights are NaN or infinite; "
                "there is no nearest point"
            )
        if w.numel():
            self.granularity.rows(w)


@dataclass(frozen=True, repr=False, eq=False)
class ExactQuantizer(Quantizer):
    """A quantizer whose projection is the nearest point of Q, not a heuristic for it.

    Two of them are equal when their sets are: ``Uniform(bits=2) == Ternary()``.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactQuantizer) and self._set() == other._set()

    def __hash__(self) -> int:
        return hash(self._set())

    def _set(self) -> tuple[tuple[float, ...], Granularity]:
        return self.codebook, self.granularity


@torch.no_grad()
def distance(w: Tensor, quantizer: Quantizer) -> Tensor:
    """Euclidean distance of ``w`` to Q, in w's dtype but at least float32.

    dist(w, Q) = ||w - proj_Q(w)||
    """
    residual = quantizer.project(w).double() - w.double()
    return residual.square().sum().sqrt().to(torch.promote_types(w.dtype, torch.float32))
