"""Rows that are hard for the search of a ternary cut, beside tests/quantizers/adversarial.py."""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST = torch.finfo(torch.float32).max


def hard_rows(n: int) -> dict[str, Tensor]:
    """Rows of about ``n`` weights, by name."""
    g = torch.Generator().manual_seed(1)
    normal, uniform = torch.randn(n, generator=g), torch.rand(n, generator=g).clamp(min=1e-12)
    signs = torch.randn(n, generator=g).sign()
    codes = torch.randint(-1, 2, (n,), generator=g)
    return {
        "zeros": torch.zeros(n),
        "one non-zero": torch.eye(1, n)[0] * 0.7,
        "all equal": torch.full((n,), -0.3),
        "already in Q": codes * 0.1234567,
        "integers with ties": torch.randint(-5, 6, (n,), generator=g).float(),
        "denormals": normal * 1e-41,
        "huge": normal * 1e37,
        "outlier": torch.cat([normal, torch.tensor([1000.0])]),
        "geometric": 2.0 ** -torch.arange(n).float().clamp(max=140),
        "laplace": uniform.log() * signs,
        "pareto with exponent 2": uniform.rsqrt() * signs,
        "bimodal": torch.cat([normal * 0.01, 1 + normal * 0.01]),
        "nearly trained": signs * (codes.abs() + normal * 0.05),
        "up to the largest float": torch.tensor([LARGEST] * 5 + [0.45 * LARGEST] + [1e30] * n),
    }


def staircase(n: int, noise: float = 0.0, seed: int = 0) -> Tensor:
    """sqrt(k) - sqrt(k-1): A^2/B is the same for every cut, up to noise and rounding."""
    k = torch.arange(1, n + 1, dtype=torch.float64)
    g = torch.Generator().manual_seed(seed)
    return ((k.sqrt() - (k - 1).sqrt()) * (1 + noise * torch.randn(n, generator=g))).float()


def any_row(seed: int) -> Tensor:
    """A row of some length, kind and scale: each seed another one."""
    g = torch.Generator().manual_seed(seed)

    def one_of(*choices: float) -> float:
        return choices[int(torch.randint(len(choices), (), generator=g))]

    n = int(one_of(2, 5, 40, 300))
    normal = torch.randn(n, generator=g, dtype=torch.float64)
    uniform = torch.rand(n, generator=g, dtype=torch.float64)
    kinds = (
        normal,
        uniform ** one_of(-0.3, -0.5, -0.7, -1.5),
        (one_of(0.1, 1, 3, 8) * normal).exp(),
        torch.where(uniform < one_of(0.1, 0.5, 0.9), 1, one_of(0.01, 0.4, 0.6))
        * (1 + 1e-4 * normal),
        (12 * uniform).floor() * one_of(1, 0.1, 1e-40),
        normal * (uniform < 0.5),
        staircase(n, one_of(0, 1e-6, 1e-3), seed),
        normal * one_of(1e-42, 1e-30, 1e30, 1e37),
    )
    return (kinds[seed % len(kinds)] * one_of(1, 1e-3, 1e3)).clamp(-LARGEST, LARGEST).float()
