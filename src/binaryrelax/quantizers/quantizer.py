"""What every quantizer is: a projection onto Q = {scale * codes} that can name both factors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import cached_property

import torch
from torch import Tensor

from binaryrelax.quantizers.granularity import Granularity, PerLayer
from binaryrelax.quantizers.sharded_weights import (
    Shards,
    is_dtensor,
    local_part,
    shards_of,
    split_dtensor,
    whole,
)
from binaryrelax.quantizers.validation import all_finite, require_codebook

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True, repr=False)
class Quantizer(ABC):
    """Projection onto Q = {scale * codes : scale >= 0, codes from the codebook}.

        x = argmin_{z in Q} ||z - y||^2      (eq. 3), solved as (scale, codes) in eq. 4

    Training uses the product and packing stores the factors, so both come from one ``split``.
    A subclass states its ``codebook`` and splits rows; granularity, memory format and bad input
    are handled here. What a subclass of your own makes of weights is looked at whenever they are
    checked or packed, and refused unless it is a point of Q.

    Weights may be DTensors: the projection is that of the whole weight, and is sharded as the
    weight is.

    Args:
        granularity: which weights share a scale; by default all of the layer.

    Examples:
        >>> import torch
        >>> from binaryrelax import PerChannel, Quantizer
        >>> class LargestSigns(Quantizer):
        ...     codebook = (-1.0, 1.0)
        ...     def split_rows(self, rows):  # one row for each scale
        ...         codes = torch.where(rows < 0, -1.0, 1.0).to(rows.dtype)
        ...         return rows.abs().amax(dim=1), codes
        >>> quantizer = LargestSigns(granularity=PerChannel())
        >>> quantizer.project(torch.tensor([[1.0, -3.0], [5.0, 7.0]]))
        tensor([[ 3., -3.],
                [ 7.,  7.]])
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
    def is_ours(self) -> bool:
        """Whether it is a kind of this library, which does as it says; others are looked at."""
        return type(self).__module__.startswith(f"{__package__}.")

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
        """Scale (one per row, >= 0) and codes (like ``rows``), both in the rows' dtype.

        ``rows`` is (groups, weights per group), finite and not empty, and may be the weight itself:
        it must not be written to. Nothing here may wait for the device: ``optimizer.step()`` calls
        it.
        """

    def split_shard(self, shard: Tensor, shards: Shards) -> tuple[Tensor, Tensor] | None:
        """``split_rows`` of one row, (1, n), of which this process holds a shard or nothing.

        Returns:
            The scale of the whole row and the codes of the shard; None if it takes the whole row,
            which the caller then gathers.
        """
        return None

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
        if is_dtensor(w):
            return split_dtensor(self, w)
        rows = self.granularity.rows(w).contiguous()  # strides must not change the order of sums
        scale, codes = self.split_groups(rows)
        codes = codes.reshape(w.shape)
        if codes.stride() != w.stride():
            codes = torch.empty_like(w).copy_(codes)
        return self.granularity.broadcast(scale, w), codes

    @torch.no_grad()
    def project_finite(self, w: Tensor) -> Tensor:
        """``project`` of weights known to be finite: no check, so nothing waits for the device."""
        scale, codes = self.split_finite(w)
        return codes.mul_(scale)  # in this order, to keep the memory format of the codes

    def split_groups(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """``split_rows``, whose shapes and dtypes are looked at: that waits for nothing."""
        found: object = self.split_rows(rows)
        if not (isinstance(found, tuple) and len(found) == 2 and _are_split(rows, *found)):
            parts = found if isinstance(found, tuple) else (found,)
            raise ValueError(
                f"{self!r}: split_rows must give a tuple of {len(rows)} scales, one per row, and "
                f"codes of shape {tuple(rows.shape)}, both {rows.dtype} on {rows.device}; it gave "
                f"{' and '.join(map(_look, parts))}"
            )
        scale, codes = found
        return scale.reshape(-1), codes

    def refuse_outside_q(self, scale: Tensor, codes: Tensor) -> None:
        """Raise ValueError unless ``split_rows`` gave a point of Q; waits for the device."""
        codebook = torch.tensor(require_codebook(self), dtype=codes.dtype, device=codes.device)
        place = torch.searchsorted(codebook, codes.contiguous()).clamp_(max=len(codebook) - 1)
        strange = codes[codebook[place] != codes]
        if strange.numel():
            raise ValueError(
                f"{self!r}: split_rows gave the code {float(strange[0]):g}, which is not in its "
                "codebook; codes are levels, before they are multiplied by the scale"
            )
        if not bool((scale.isfinite() & (scale >= 0)).all()):
            raise ValueError(f"{self!r}: split_rows gave a scale that is negative or not finite")

    def check(self, w: Tensor) -> None:
        """Raise ValueError if ``w`` cannot be projected; waits for the device."""
        if w.dtype not in DTYPES:
            raise ValueError(f"{self!r}: weights must be floating point ({DTYPES}), not {w.dtype}")
        largest = max(map(abs, require_codebook(self)))
        if largest > torch.finfo(w.dtype).max:
            raise ValueError(f"{self!r}: code {largest:g} does not fit into {w.dtype}")
        if not all_finite(w):
            num_bad = int(shards_of(w).total(local_part(w).isfinite().logical_not().sum()))
            raise ValueError(
                f"{self!r}: {num_bad} of {w.numel()} weights are NaN or infinite; "
                "there is no nearest point"
            )
        if w.numel():
            self.granularity.checked_group_size(tuple(w.shape))
            if not self.is_ours:
                self._try_out(w)

    @torch.no_grad()
    def _try_out(self, w: Tensor) -> None:
        """Raise ValueError unless a quantizer of the user's own splits ``w`` as it must."""
        rows = self.granularity.rows(whole(w)).contiguous()
        given = rows.clone()
        scale, codes = self.split_groups(given)
        if codes.data_ptr() == given.data_ptr() or not torch.equal(rows, given):
            raise ValueError(f"{self!r}: split_rows must give new tensors and leave rows as it was")
        self.refuse_outside_q(scale, codes)


@dataclass(frozen=True, repr=False, eq=False)
class ExactQuantizer(Quantizer):
    """A quantizer whose projection is the nearest point of Q, not a heuristic for it.

    Two of them are equal when their sets are: ``Uniform(bits=2) == Ternary()``.

    Args:
        granularity: which weights share a scale; by default all of the layer.

    Examples:
        >>> from binaryrelax import ExactQuantizer, Levels, Ternary, TernaryThreshold
        >>> Ternary() == Levels((0, 1))
        True
        >>> isinstance(Ternary(), ExactQuantizer), isinstance(TernaryThreshold(), ExactQuantizer)
        (True, False)
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactQuantizer) and self._set() == other._set()

    def __hash__(self) -> int:
        return hash(self._set())

    def _set(self) -> tuple[tuple[float, ...], Granularity]:
        return tuple(self.codebook), self.granularity


def _are_split(rows: Tensor, scale: object, codes: object) -> bool:
    """Whether these have the shapes and dtypes of scales and codes of ``rows``."""
    if not (isinstance(scale, Tensor) and isinstance(codes, Tensor)):
        return False
    is_alike = all(x.dtype == rows.dtype and x.device == rows.device for x in (scale, codes))
    return is_alike and scale.numel() == len(rows) and codes.shape == rows.shape


def _look(x: object) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    return f"{tuple(x.shape)} {x.dtype} on {x.device}"


@torch.no_grad()
def distance(w: Tensor, quantizer: Quantizer) -> Tensor:
    """Euclidean distance of ``w`` to Q, in w's dtype but at least float32.

    dist(w, Q) = ||w - proj_Q(w)||

    Args:
        w: any floating-point tensor.
        quantizer: the set Q. With a heuristic one it is the distance to what that finds.

    Raises:
        ValueError: w is not a floating-point tensor, or holds NaN or infinity.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, distance
        >>> w = torch.tensor([1.0, -3.0])
        >>> distance(w, Binary())
        tensor(1.4142)
        >>> distance(Binary().project(w), Binary())
        tensor(0.)
    """
    residual = local_part(quantizer.project(w)).double() - local_part(w).double()
    square = shards_of(w).total(residual.square().sum())
    return square.sqrt().to(torch.promote_types(w.dtype, torch.float32))
