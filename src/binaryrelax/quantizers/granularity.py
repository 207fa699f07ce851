"""How many weights share one scale: the whole layer, an output channel, or a run of a row."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from binaryrelax.quantizers.validation import require_whole


class Granularity(ABC):
    """A partition of a weight into groups of equal size, one scale each.

    The paper has one scale per layer (section 1); the finer partitions solve the same problem
    (eq. 4) once per group.

    One of your own states the two methods below; ``group_size`` says what they must do, and every
    quantizer looks. ``pack`` takes it if each group is the whole weight, rows of
    ``weight.reshape(out, -1)``, or a part that divides a row.
    """

    @abstractmethod
    def rows(self, w: Tensor) -> Tensor:
        """The weights as (groups, weights per group), in logical order whatever the strides."""

    @abstractmethod
    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        """One scale per group, shaped so that it broadcasts against ``w``."""

    def __repr__(self) -> str:
        own = getattr(self, "__dict__", {})
        settings = ", ".join(f"{name}={value!r}" for name, value in own.items())
        return f"{type(self).__name__}({settings})"


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


def group_size(granularity: Granularity, shape: tuple[int, ...]) -> int:
    """How many weights share a scale in a weight of that shape, which is not empty.

    Raises:
        ValueError: the granularity cannot cut such a weight, or does not cut it into groups of
            equal size that follow each other in ``weight.flatten()``, or gives the scale of a
            group to other weights.
    """
    if type(granularity) in (PerLayer, PerChannel, PerGroup):
        return granularity.rows(torch.empty(shape, device="meta")).shape[1]
    try:
        return _seen_group_size(granularity, shape)
    except TypeError:  # it cannot be hashed
        return _found_group_size(granularity, shape)


def _found_group_size(granularity: Granularity, shape: tuple[int, ...]) -> int:
    """``group_size`` of a granularity that may do anything: seen from what it does."""
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
    for base in (PerLayer, PerChannel, PerGroup):
        nowhere = torch.empty(shape, device="meta")
        is_one = isinstance(granularity, base)
        if is_one and base.rows(granularity, nowhere).shape[1] != size:  # type: ignore[arg-type]
            raise ValueError(
                f"{where}: a {base.__name__} must have the groups of one, and these have {size} "
                "weights; derive it from Granularity"
            )


def storable(granularity: Granularity, shape: tuple[int, ...]) -> Granularity:
    """PerLayer, PerChannel or PerGroup with one scale, or several equal ones, for each group.

    Raises:
        ValueError: there is none, since groups begin inside of rows and do not divide them.
    """
    if type(granularity) in (PerLayer, PerChannel, PerGroup):
        return granularity
    size, row_length = group_size(granularity, shape), math.prod(shape[1:])
    if size == math.prod(shape):
        return PerLayer()
    if size % row_length == 0:
        return PerChannel()
    if row_length % size == 0:
        return PerGroup(size)
    raise ValueError(
        f"{granularity!r} has groups of {size} weights, which neither divide a row of {row_length} "
        "nor are whole rows, so that no packed layer can hold their scales; train with "
        "PerLayer(), PerChannel() or PerGroup(size)"
    )
