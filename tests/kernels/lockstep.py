"""The fused kernels beside their reference, on whatever the kernels run on here.

With a CUDA device they are compiled; without one, Triton's interpreter runs the same kernels on
CPU tensors (see tests/conftest.py). tests/gpu runs these checks on weights of real size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from binaryrelax import (
    Binary,
    PerChannel,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
)
from binaryrelax.optim.relaxation import relax_
from tests.kernels.exact import Cut, cut_of, value_ratio
from tests.quantizers.cases import same_bits, ulps_apart, with_granularity

pytest.importorskip("triton", reason="the kernels are written in Triton")
from binaryrelax.kernels.fused_relaxation import (
    FusedRelaxation,
    is_fusible as is_fusible,
)

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if IS_INTERPRETED else "cuda")
# What numpy says where a device says nothing: of NaN, infinity, and float64 beyond float32.
QUIET = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning:triton.runtime.interpreter",
    "ignore:(overflow|invalid value) encountered in reduce:RuntimeWarning",  # deeper in numpy
)
PER_LAYER = (Binary(), TernaryThreshold(), TernaryAbsMean(), Ternary())
QUANTIZERS = [
    with_granularity(quantizer, granularity)
    for quantizer in PER_LAYER
    for granularity in (PerLayer(), PerChannel())
]
GROUPED = [
    with_granularity(quantizer, PerGroup(size)) for quantizer in PER_LAYER for size in (64, 256)
]
TERNARY = [quantizer for quantizer in QUANTIZERS if isinstance(quantizer, Ternary)]
NAN_OF_CUDA = torch.tensor(0x7FFFFFFF, dtype=torch.int32).view(torch.float32)  # all bits are set
TIE = 2.0**-44  # relative; the reference takes values this close for equal


class Twin:
    """A ``FusedRelaxation`` with the weights that it reads and writes."""

    def __init__(self, quantizer: Quantizer, weights: Sequence[Tensor]) -> None:
        self.quantizer = quantizer
        self.ys = [weight.to(DEVICE, copy=True) for weight in weights]
        self.xs = [torch.empty_like(y) for y in self.ys]
        self.mix = torch.zeros((), dtype=torch.float64, device=DEVICE)
        self.fused = FusedRelaxation(quantizer, list(zip(self.xs, self.ys, strict=True)))

    def relax(self, mix: float) -> list[Tensor]:
        """x for λ/(λ+1) = mix, on the CPU; nothing of the old x may show through."""
        for x in self.xs:
            x.fill_(math.nan)
        self.mix.fill_(mix)
        self.fused(self.mix)
        return [x.to("cpu", copy=True) for x in self.xs]

    def weights(self) -> list[Tensor]:
        """Copies of y on the CPU."""
        return [y.to("cpu", copy=True) for y in self.ys]

    def overwrite(self, weights: Sequence[Tensor]) -> None:
        """Put other weights where the old ones lie."""
        for y, weight in zip(self.ys, weights, strict=True):
            y.copy_(weight)

    def not_finite(self) -> list[bool]:
        """Which weights were found to be NaN or infinite so far."""
        return self.fused.not_finite.tolist()


def assert_lockstep(twin: Twin, mixes: Sequence[float]) -> None:
    """The projection is that of the quantizer, and eq. 11 lies between it and y."""
    ys = twin.weights()
    projections = twin.relax(1.0)
    for y, projected in zip(ys, projections, strict=True):
        assert_projection(twin.quantizer, y, projected)
    for mix in mixes:
        for y, projected, x in zip(ys, projections, twin.relax(mix), strict=True):
            assert_between(y, projected, x, mix)
    assert not any(twin.not_finite())


def assert_projection(quantizer: Quantizer, y: Tensor, projected: Tensor) -> None:
    """``projected`` has the reference's codes (or a tie's) and its scale to float32 rounding."""
    assert projected.stride() == y.stride()
    rows = quantizer.granularity.rows
    reference = quantizer.project_finite(y)
    for row, found, expected in zip(rows(y), rows(projected), rows(reference), strict=True):
        if torch.equal(found.sign(), expected.sign()):
            assert ulps_apart(found, expected) <= 1
        else:
            assert isinstance(quantizer, Ternary)
            assert abs(value_ratio(cut_of(row, found != 0), cut_of(row, expected != 0)) - 1) < TIE
            assert_scale(found, cut_of(row, found != 0))
    assert torch.equal(quantizer.project(projected), projected)


def assert_scale(projected: Tensor, cut: Cut) -> None:
    """All weights of the row are 0 or ± the mean of the kept magnitudes."""
    magnitudes = projected[projected != 0].abs()
    assert magnitudes.numel() == cut.count
    if cut.count:
        assert ulps_apart(magnitudes, torch.full_like(magnitudes, cut.scale)) <= 1


def assert_between(y: Tensor, projected: Tensor, x: Tensor, mix: float) -> None:
    """x = y + mix * (projected - y), up to the rounding of its terms; exactly y for mix = 0."""
    if mix == 0:
        assert torch.equal(x, y)
    expected = torch.empty_like(y)
    relax_(expected, y, projected, torch.tensor(mix, dtype=torch.float64))
    rounding = 2.0**-22 * torch.maximum(y.abs(), projected.abs()) + 2.0**-149
    assert ((x - expected).abs() <= rounding).all()


def assert_same_as_fresh(twin: Twin) -> list[Tensor]:
    """What the search found before does not show in the result, not in a single bit."""
    fresh = Twin(twin.quantizer, twin.ys)
    found = twin.relax(1.0)
    for x, same in zip(found, fresh.relax(1.0), strict=True):
        assert same_bits(x, same)
    return found


def assert_repeats(twin: Twin, times: int, mix: float = 0.3) -> None:
    """The same weights give the same bits however often."""
    first = twin.relax(mix)
    for _ in range(times):
        assert all(same_bits(x, same) for x, same in zip(twin.relax(mix), first, strict=True))


def assert_recovers(twin: Twin) -> None:
    """No earlier y spoils the search: neither another scale, nor zeros, nor NaN."""
    good = twin.weights()
    twin.relax(0.3)
    for factor in (1e25, 1e-30, 0.0):
        twin.overwrite([y * factor for y in good])
        for y, x in zip(twin.weights(), assert_same_as_fresh(twin), strict=True):
            assert_projection(twin.quantizer, y, x)
    assert not any(twin.not_finite())
    twin.overwrite([y * math.nan for y in good])
    twin.relax(1.0)
    assert all(twin.not_finite())
    twin.fused.not_finite.zero_()
    twin.overwrite(good)
    for y, x in zip(good, assert_same_as_fresh(twin), strict=True):
        assert_projection(twin.quantizer, y, x)
    assert not any(twin.not_finite())


def assert_only_the_spoilt_is_marked(
    quantizer: Quantizer, weights: Sequence[Tensor], spoilt: int, value: float | Tensor
) -> None:
    """One bad number marks its weight; all others are as if it were not there."""
    twin = Twin(quantizer, weights)
    good = twin.relax(1.0)
    twin.ys[spoilt][(-1,) * weights[spoilt].dim()] = value
    found = twin.relax(1.0)
    assert twin.not_finite() == [i == spoilt for i in range(len(weights))]
    for i, (x, same) in enumerate(zip(found, good, strict=True)):
        assert i == spoilt or same_bits(x, same)


def assert_follows_mix(twin: Twin, relax_again: Callable[[], None]) -> None:
    """A call that was recorded once reads the mix anew each time."""
    ys = twin.weights()
    projections = twin.relax(1.0)
    for mix in (0.3, 0.8):
        twin.mix.fill_(mix)
        relax_again()
        for y, projected, x in zip(ys, projections, twin.xs, strict=True):
            assert_between(y, projected, x.cpu(), mix)
