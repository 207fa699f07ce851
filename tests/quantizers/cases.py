"""What the quantizer tests run over. A new quantizer is accepted by joining one of the lists."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from binaryrelax.quantizers import (
    Binary,
    Granularity,
    Levels,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    PerLayer,
    PowerOfTwo,
    Quantizer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
)

EXACT_QUANTIZERS: tuple[Quantizer, ...] = (
    Binary(),
    Ternary(),
    *(Uniform(bits=bits) for bits in range(2, 9)),
    *(PowerOfTwo(bits=bits) for bits in range(2, 7)),
    Levels((0, 1, 3)),
    Levels((1, 2)),
    Levels((2, 3, 7)),
    Levels((0.3, 1.7, 2.2)),
    Levels((0, 0.5, 0.75, 4)),
)
HEURISTIC_QUANTIZERS: tuple[Quantizer, ...] = (
    TernaryThreshold(),
    TernaryThreshold(ratio=1.0),
    TernaryAbsMean(),
    *(OneStepLloyd(bits=bits) for bits in (2, 3, 4, 8)),
)
ALL_QUANTIZERS = EXACT_QUANTIZERS + HEURISTIC_QUANTIZERS
GRANULARITIES: tuple[Granularity, ...] = (PerLayer(), PerChannel(), PerGroup(2))
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
BITS_PROMISED_IDEMPOTENT = 4  # up to one ulp beyond

INTEGER = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def is_supported(quantizer: Quantizer, dtype: torch.dtype) -> bool:
    """Whether every code fits into the dtype: PowerOfTwo(6) reaches 2^30, half stops at 65504."""
    return max(quantizer.codebook) <= torch.finfo(dtype).max


def at_every_granularity(quantizer: Quantizer) -> list[Quantizer]:
    return [with_granularity(quantizer, granularity) for granularity in GRANULARITIES]


def supported_dtypes(quantizer: Quantizer) -> list[torch.dtype]:
    return [dtype for dtype in DTYPES if is_supported(quantizer, dtype)]


def with_granularity(quantizer: Quantizer, granularity: Granularity) -> Quantizer:
    return replace(quantizer, granularity=granularity)


def level_values(quantizer: Quantizer, dtype: torch.dtype = torch.float64) -> Tensor:
    """The magnitudes of the codebook as ``dtype`` holds them, float64."""
    return torch.tensor([q for q in quantizer.codebook if q >= 0], dtype=dtype).double()


def bit_pattern(w: Tensor) -> Tensor:
    """The bits of each float: tells -0.0 from 0.0, unlike ``==``."""
    return w.contiguous().view(INTEGER[w.dtype])


def same_bits(first: Tensor, second: Tensor) -> bool:
    return first.dtype == second.dtype and torch.equal(bit_pattern(first), bit_pattern(second))


def ulps_apart(first: Tensor, second: Tensor) -> int:
    """The largest distance in representable numbers; signs must agree."""
    assert torch.equal(first.signbit(), second.signbit())
    return int((bit_pattern(first).long() - bit_pattern(second).long()).abs().max())


_ORDINARY = st.one_of(
    st.integers(-8, 8).map(float),
    st.floats(-100, 100, width=16).filter(lambda x: x == 0 or abs(x) > 1e-2),
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 0.1, 0.3, -0.7, 1 / 3, 2.0, 4.0, -8.0, 64.0]),
)


@st.composite
def weights(draw: st.DrawFn, dtype: torch.dtype | None = None) -> Tensor:
    """Small weights of any dtype and shape (rows of even length, so that PerGroup(2) divides).

    Magnitudes are 0 or in [0.01, 100], where no scale overflows or underflows in any dtype.
    """
    dtype = dtype or draw(st.sampled_from(DTYPES))
    shape = draw(st.sampled_from([(1, 2), (3, 2), (2, 4), (1, 6), (3, 6), (2, 1, 2), (2, 2, 1, 4)]))
    num_weights = torch.Size(shape).numel()
    few = draw(st.lists(_ORDINARY, min_size=1, max_size=num_weights))
    many = [few[i % len(few)] for i in range(num_weights)]  # short lists repeat: ties
    return torch.tensor(many, dtype=torch.float64).to(dtype).reshape(shape)


def random_weights(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
