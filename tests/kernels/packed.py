"""Packed weights beside a float64 product, on whatever the kernels run on here."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.kernels.lockstep import DEVICE, IS_INTERPRETED

pytest.importorskip("triton", reason="the kernels are written in Triton")
from binaryrelax.kernels.packed_matrix import PackedMatrix, Plan

# Of the largest output: rounding to the dtype, and a little for sums in float32. The interpreter
# cuts bfloat16 off instead of rounding it.
TOLERANCES = {
    torch.bfloat16: 2.0**-7 if IS_INTERPRETED else 1.01 * 2.0**-8,
    torch.float16: 1.01 * 2.0**-11,
}


class Case:
    """A random matrix, its weights in float64 and vectors to multiply it by."""

    def __init__(self, outputs: int, inputs: int, bits: int, *, row_scales: bool = False) -> None:
        g = torch.Generator().manual_seed(1000 * outputs + 2 * inputs + bits)
        codes = torch.randint(0, 1 + bits, (outputs, inputs), generator=g, dtype=torch.uint8)
        self.scale = torch.rand(outputs if row_scales else 1, generator=g) + 0.1
        self.bias = torch.randn(outputs, generator=g)
        self.packed = pack_rows(codes, bits)
        values = 2.0 * codes.double() - 1 if bits == 1 else codes.double() - 1
        self.weight = values * self.scale.double()[:, None]
        self.matrix = PackedMatrix(
            self.packed.to(DEVICE), self.scale.to(DEVICE), inputs=inputs, bits=bits
        )
        self.generator = g

    def vectors(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Fresh vectors, on the kernels' device."""
        return torch.randn(*shape, generator=self.generator).to(DEVICE, dtype)

    def assert_product(self, x: Tensor, *, biased: bool = False, plan: Plan | None = None) -> None:
        """The kernel's product is the one in float64, but for rounding."""
        bias = self.bias.to(DEVICE) if biased else None
        y = self.matrix.multiply(x, bias, plan=plan)
        assert y.dtype == x.dtype and y.shape == (*x.shape[:-1], len(self.weight))
        expected = x.cpu().double() @ self.weight.T
        if biased:
            expected += self.bias.double()
        error = (y.cpu().double() - expected).abs().amax() if y.numel() else torch.zeros(())
        largest = expected.abs().amax() if y.numel() else torch.ones(())
        assert error <= TOLERANCES[x.dtype] * largest, f"{error / largest:.2e}"


def pack_rows(codes: Tensor, bits: int) -> Tensor:
    """The canonical layout of codes: least significant bits first, rows of whole bytes."""
    per_byte = 8 // bits
    rows = torch.nn.functional.pad(codes, (0, -codes.shape[1] % per_byte))
    rows = rows.view(len(codes), -1, per_byte)
    return sum(rows[..., i] << (i * bits) for i in range(per_byte)).to(torch.uint8)
