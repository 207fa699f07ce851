"""How many weights share one scale: the whole layer, an output channel, or a run of a row."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from binaryrelax.quantizers.validation import require_whole


class Granularity(ABC):
    """A partition of a weight into groups of equal size, one scale each.

    The paper has one scale per layer (section 1); the finer partitions solve the same problem
    (eq. 4) once per group.

    One of your own states ``rows`` and ``broadcast``; ``checked_group_size`` says what they must
    do, and every quantizer looks. ``pack`` takes it if each group is the whole weight, rows of
    ``weight.reshape(out, -1)``, or a part that divides a row. The attributes let
    kernels take it; one of your own may leave them.

    Attributes:
        is_one_scale: whether all weights share one scale.
        is_constant_in_rows: whether the weights of an index of dimension 0 share one scale.
        is_within_rows: whether no two indices of dimension 0 share a scale.
        plain_name: what files call it; None for a kind that they cannot say.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, Granularity
        >>> class PerTwoRows(Granularity):
        ...     def rows(self, w):
        ...         return w.reshape(w.shape[0] // 2, -1)
        ...     def broadcast(self, scale, w):
        ...         return scale.repeat_interleave(2)[:, None]
        >>> Binary(granularity=PerTwoRows()).project(torch.tensor([[1.0], [3.0], [5.0], [-7.0]]))
        tensor([[ 2.],
                [ 2.],
                [ 6.],
                [-6.]])
    """

    is_one_scale: ClassVar[bool] = False
    is_constant_in_rows: ClassVar[bool] = False
    is_within_rows: ClassVar[bool] = False
    plain_name: ClassVar[str | None] = None

    @abstractmethod
    def rows(self, w: Tensor) -> Tensor:
        """The weights as (groups, weights per group), in logical order whatever the strides."""

    @abstractmethod
    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        """One scale per group, shaped so that it broadcasts against ``w``."""

    @property
    def is_ours(self) -> bool:
        """Whether it is a kind of this library, which does as it says; others are looked at."""
        return _is_ours(type(self))

    def checked_group_size(self, shape: tuple[int, ...]) -> int:
        """How many weights share a scale in a weight of that shape, which is not empty.

        Raises:
            ValueError: the granularity cannot cut such a weight, or does not cut it into groups of
                equal size that follow each other in ``weight.flatten()``, or gives the scale of a
                group to other weights.
        """
        if self.is_ours:
            return self.rows(torch.empty(shape, device="meta")).shape[1]
        try:
            return _seen_group_size(self, shape)
        except TypeError:  # it cannot be hashed
            return _found_group_size(self, shape)

    def scale_shape(self, shape: tuple[int, ...]) -> torch.Size:
        """The shape of what ``broadcast`` gives for a weight of that shape."""
        nowhere = torch.empty(shape, device="meta")
        return self.broadcast(self.rows(nowhere)[:, 0], nowhere).shape

    def as_stored(self, shape: tuple[int, ...]) -> Granularity:
        """The kind of this library with one scale, or several equal ones, for each group.

        Raises:
            ValueError: there is none, since groups begin inside of rows and do not divide them.
        """
        if self.is_ours:
            return self
        size, row_length = self.checked_group_size(shape), math.prod(shape[1:])
        if size == math.prod(shape):
            return PerLayer()
        if size % row_length == 0:
            return PerChannel()
        if row_length % size == 0:
            return PerGroup(size)
        raise ValueError(
            f"{self!r} has groups of {size} weights, which neither divide a row of {row_length} "
            "nor are whole rows, so that no packed layer can hold their scales; train with "
            "PerLayer(), PerChannel() or PerGroup(size)"
        )

    def refined_to_rows(self) -> Granularity:
        """The coarsest granularity that cuts where this one does, and between rows."""
        return PerChannel() if self.is_one_scale else self

    def to_plain(self) -> str | int | None:
        """What files call it, which ``from_plain`` takes back; None if they cannot say it."""
        return self.plain_name

    @classmethod
    def from_plain(cls, value: object) -> Granularity | None:
        """The granularity of this kind that files call so; None if they call none so."""
        return cls() if isinstance(value, str) and value == cls.plain_name else None

    def __repr__(self) -> str:
        own = getattr(self, "__dict__", {})
        settings = ", ".join(f"{name}={value!r}" for name, value in own.items())
        return f"{type(self).__name__}({settings})"


@dataclass(frozen=True)
class PerLayer(Granularity):
    """One scale for the whole weight.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, PerLayer
        >>> w = torch.tensor([[1.0, -3.0], [5.0, 7.0]])
        >>> Binary(granularity=PerLayer()).project(w)  # the default
        tensor([[ 4., -4.],
                [ 4.,  4.]])
    """

    plain_name: ClassVar[str] = "layer"
    is_one_scale: ClassVar[bool] = True
    is_constant_in_rows: ClassVar[bool] = True

    def rows(self, w: Tensor) -> Tensor:
        return w.reshape(1, -1)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        return scale.reshape(())


@dataclass(frozen=True)
class PerChannel(Granularity):
    """One scale per index of dimension 0, the output channel of Linear and Conv layers.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, PerChannel
        >>> w = torch.tensor([[1.0, -3.0], [5.0, 7.0]])
        >>> Binary(granularity=PerChannel()).project(w)
        tensor([[ 2., -2.],
                [ 6.,  6.]])
    """

    plain_name: ClassVar[str] = "channel"
    is_constant_in_rows: ClassVar[bool] = True
    is_within_rows: ClassVar[bool] = True

    def rows(self, w: Tensor) -> Tensor:
        return _output_rows(w, self)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        return scale.reshape(-1, *[1] * (w.dim() - 1))


@dataclass(frozen=True)
class PerGroup(Granularity):
    """One scale per run of ``size`` weights in a row of ``weight.reshape(out, -1)``.

    Args:
        size: weights that share a scale; it must divide the length of a row.

    Raises:
        ValueError: ``size`` is not a whole number from 1 on.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, PerGroup
        >>> w = torch.tensor([[1.0, -3.0, 5.0, 7.0]])
        >>> Binary(granularity=PerGroup(2)).project(w)
        tensor([[ 2., -2.,  6.,  6.]])
    """

    is_within_rows: ClassVar[bool] = True
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

    def to_plain(self) -> int:
        return self.size

    @classmethod
    def from_plain(cls, value: object) -> Granularity | None:
        return cls(value) if type(value) is int else None


def _output_rows(w: Tensor, granularity: Granularity) -> Tensor:
    if w.dim() == 0:
        raise ValueError(
            f"{granularity} needs a weight with at least one dimension; use PerLayer()"
        )
    return w.reshape(w.shape[0], -1)


def _is_ours(kind: type) -> bool:
    return kind.__module__ == __name__


def _found_group_size(granularity: Granularity, shape: tuple[int, ...]) -> int:
    """The group size of a granularity that may do anything: seen from what it does."""
    where = f"{granularity!r} of a weight of shape {shape}"
    places = torch.arange(math.prod(shape), dtype=torch.float64, device="cpu")
    weight = (places * 0.6180339887498949).frac_().reshape(shape)  # in no order, all different
    rows = _answer(where, lambda: granularity.rows(weight).detach())
    if rows.dim() != 2 or not torch.equal(rows.flatten(), weight.flatten()):
        raise ValueError(
            f"{where}: rows() must give (groups, weights per group) with each weight once, in the "
            "order of weight.flatten(); use PerLayer(), PerChannel() or PerGroup(size)"
        )
    groups, size = torch.arange(len(rows), dtype=torch.float64, device="cpu"), rows.shape[1]
    given = _answer(where, lambda: granularity.broadcast(groups, weight).expand(shape))
    if not torch.equal(given.flatten(), places // size):
        raise ValueError(
            f"{where}: broadcast() must give each weight the scale of the group that rows() has "
            "put it into"
        )
    _refuse_other_than_its_base(granularity, shape, size, where)
    _refuse_other_than_it_says(granularity, shape, size, where)
    return size


def _answer(where: str, call: Callable[[], Tensor]) -> Tensor:
    """What code of the user's own gives; anything can come out of it."""
    try:
        return call()
    except ValueError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{where}: {type(error).__name__}: {reason}") from error


_seen_group_size = lru_cache(maxsize=1024)(_found_group_size)


def _refuse_other_than_its_base(
    granularity: Granularity, shape: tuple[int, ...], size: int, where: str
) -> None:
    """Whoever meets a PerChannel takes it for one, and does not ask for its rows."""
    nowhere = torch.empty(shape, device="meta")
    bases = [kind for kind in type(granularity).__mro__ if issubclass(kind, Granularity)]
    for base in (kind for kind in bases if _is_ours(kind) and not inspect.isabstract(kind)):
        if base.rows(granularity, nowhere).shape[1] != size:
            raise ValueError(
                f"{where}: a {base.__name__} must have the groups of one, and these have {size} "
                "weights; derive it from Granularity"
            )


def _refuse_other_than_it_says(
    granularity: Granularity, shape: tuple[int, ...], size: int, where: str
) -> None:
    """Kernels believe the attributes, and do not ask for rows either."""
    said = size
    if granularity.is_constant_in_rows or granularity.is_one_scale:
        said = math.prod(shape if granularity.is_one_scale else shape[1:])
    if size != said:
        raise ValueError(
            f"{where}: its attributes say that {said} weights share a scale, and its rows() have "
            f"{size}; leave is_one_scale and is_constant_in_rows as they are in Granularity"
        )
    row_length = math.prod(shape[1:])
    if granularity.is_within_rows and row_length % size:
        raise ValueError(
            f"{where}: its attributes say that no two rows share a scale, and groups of {size} "
            f"weights do not divide rows of {row_length}; leave is_within_rows as it is in "
            "Granularity"
        )
