"""Exact projections onto any fixed levels: Uniform, PowerOfTwo and Levels.

The paper calls eq. 4 intractable beyond 2 bits. For one scale and fixed levels it is not: see
``sweep.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from binaryrelax.quantizers.assignment import finish_split, nearest_levels, refit
from binaryrelax.quantizers.averages import magnitudes, power_of_two_above
from binaryrelax.quantizers.binary import split_binary
from binaryrelax.quantizers.quantizer import ExactQuantizer
from binaryrelax.quantizers.sweep import bracketed_sweep, full_sweep
from binaryrelax.quantizers.ternary import split_ternary
from binaryrelax.quantizers.validation import is_finite_number, require_whole

BRACKET_FROM = 1024  # weights in a row; the states of a shorter one are visited faster than bounded
BREAKPOINTS_ON_CPU = 1 << 20  # rows are swept together up to here, which bounds the memory
BREAKPOINTS_ON_DEVICE = 1 << 27  # bracketing reads sizes back from the device: avoid it up to here


@dataclass(frozen=True, repr=False, eq=False)
class ExactLevels(ExactQuantizer):
    """Exact projection onto scale * {±q_1, ..., ±q_m}^n, 0 <= q_1 < ... < q_m (eq. 4)."""

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        codebook = tuple(self.codebook)
        if codebook == (-1, 1):
            return split_binary(rows)
        if codebook == (-1, 0, 1):
            return split_ternary(rows)
        a = magnitudes(rows)
        levels = level_tensor(codebook, rows.dtype, rows.device)
        scale = optimal_scale(a, levels)
        codes, scale = refit(a, levels, nearest_levels(a, scale, levels))
        return finish_split(rows, codes, scale)


@dataclass(frozen=True, repr=False, eq=False)
class Uniform(ExactLevels):
    """Exact projection onto equally spaced levels 0, ±1, ..., ±(2^(bits-1) - 1).

    Two bits are the ternary levels: ``Uniform(bits=2)`` projects as ``Ternary()`` does.

    Args:
        bits: from 2 to 8.
        granularity: which weights share a scale; by default all of the layer.

    Raises:
        ValueError: ``bits`` is not a whole number from 2 to 8.

    Examples:
        >>> import torch
        >>> from binaryrelax import Uniform
        >>> quantizer = Uniform(bits=3)
        >>> quantizer.codebook
        (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
        >>> quantizer.split(torch.tensor([0.9, -2.1, 0.1, 3.0]))
        (tensor(1.0071), tensor([ 1., -2.,  0.,  3.]))
    """

    bits: int = field()

    def __post_init__(self) -> None:
        super().__post_init__()
        bits = require_whole("Uniform", "bits", self.bits, low=2, high=8)
        object.__setattr__(self, "bits", bits)

    @property
    def codebook(self) -> tuple[float, ...]:
        return uniform_codebook(self.bits)


@dataclass(frozen=True, repr=False, eq=False)
class PowerOfTwo(ExactLevels):
    """Exact projection onto 0, ±1, ±2, ±4, ...: 2^(bits-1) magnitudes, products by shifts.

    Args:
        bits: from 2 to 8. The largest magnitude is 2^(2^(bits-1) - 2).
        granularity: which weights share a scale; by default all of the layer.

    Raises:
        ValueError: ``bits`` is not a whole number from 2 to 8.

    Examples:
        >>> import torch
        >>> from binaryrelax import PowerOfTwo
        >>> quantizer = PowerOfTwo(bits=3)
        >>> quantizer.codebook
        (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
        >>> quantizer.project(torch.tensor([0.5, -1.0, 0.1, 2.0]))
        tensor([ 0.5000, -1.0000,  0.0000,  2.0000])
    """

    bits: int = field()

    def __post_init__(self) -> None:
        super().__post_init__()
        bits = require_whole("PowerOfTwo", "bits", self.bits, low=2, high=8)
        object.__setattr__(self, "bits", bits)

    @property
    def codebook(self) -> tuple[float, ...]:
        return signed((0.0, *(2.0**k for k in range(2 ** (self.bits - 1) - 1))))


@dataclass(frozen=True, repr=False, eq=False)
class Levels(ExactLevels):
    """Exact projection onto any increasing, non-negative magnitudes, such as (0, 1, 3).

    Args:
        magnitudes: 1 to 128 numbers 0 <= q_1 < q_2 < ...; each stands for both signs.
        granularity: which weights share a scale; by default all of the layer.

    Raises:
        ValueError: the magnitudes do not increase, or one is negative, not finite or extreme.

    Examples:
        >>> import torch
        >>> from binaryrelax import Levels
        >>> quantizer = Levels((0, 1, 3))
        >>> quantizer.codebook, quantizer.bits
        ((-3.0, -1.0, 0.0, 1.0, 3.0), 3)
        >>> quantizer.project(torch.tensor([0.5, -1.5, 0.1, 1.5]))
        tensor([ 0.5000, -1.5000,  0.0000,  1.5000])
    """

    magnitudes: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.magnitudes
        numbers = tuple(given) if isinstance(given, Sequence) else ()
        valid = 1 <= len(numbers) <= 128 and all(is_finite_number(q) for q in numbers)
        numbers = tuple(float(q) + 0.0 for q in numbers) if valid else ()  # + 0.0: no minus zero
        valid = valid and numbers[0] >= 0 and all(1e-30 <= q <= 1e30 for q in numbers if q)
        valid = valid and numbers[-1] > 0
        if not valid or any(low >= high for low, high in pairwise(numbers)):
            raise ValueError(
                f"Levels({given!r}): need 1 to 128 magnitudes "
                "0 <= q_1 < q_2 < ..., each 0 or in [1e-30, 1e30], such as (0, 1, 3)"
            )
        object.__setattr__(self, "magnitudes", numbers)

    @property
    def codebook(self) -> tuple[float, ...]:
        return signed(self.magnitudes)


def uniform_codebook(bits: int) -> tuple[float, ...]:
    """0, ±1, ..., ±(2^(bits-1) - 1), increasing."""
    return signed(tuple(float(q) for q in range(2 ** (bits - 1))))


def signed(magnitudes: tuple[float, ...]) -> tuple[float, ...]:
    """The codebook of these magnitudes: both signs, zero once, increasing."""
    negative = tuple(-q for q in reversed(magnitudes) if q > 0)
    return negative + magnitudes


@lru_cache(maxsize=256)  # a copy to the device at every step could not be captured in a graph
def level_tensor(codebook: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The levels q_1 < ... < q_m as ``dtype`` can hold them, in float64 on the device."""
    return torch.tensor([q for q in codebook if q >= 0], dtype=dtype, device=device).double()


def optimal_scale(a: Tensor, levels: Tensor) -> Tensor:
    """The s* of eq. 4 for each row of magnitudes, by the faster of the two sweeps."""
    unit = power_of_two_above(a)
    a = a / unit.to(a.dtype)
    num_breakpoints = max(1, a.shape[1] * (len(levels) - 1))
    if a.device.type == "cpu":
        sweep = full_sweep if a.shape[1] < BRACKET_FROM else bracketed_sweep
        at_once = BREAKPOINTS_ON_CPU
    else:
        sweep = full_sweep if num_breakpoints <= BREAKPOINTS_ON_DEVICE else bracketed_sweep
        at_once = BREAKPOINTS_ON_DEVICE
    parts = torch.split(a, max(1, at_once // num_breakpoints))
    return torch.cat([sweep(part, levels) for part in parts]) * unit[:, 0]
