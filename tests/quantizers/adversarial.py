"""Magnitudes that are hard for exact projections: ties, tails, extremes, points of Q."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .cases import INTEGER

Shape = tuple[int, int]
Draw = Callable[[Shape, Tensor, torch.Generator], Tensor]


def _normal(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=g, dtype=torch.float64).abs()


def _uniform(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=g, dtype=torch.float64)


def _integers(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return torch.randint(0, 10, shape, generator=g).double()


def _ties(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    values = _normal((shape[0], 3), levels, g)
    return values.gather(1, torch.randint(0, 3, shape, generator=g))


def _all_equal(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return _normal((shape[0], 1), levels, g).expand(shape).clone()


def _many_zeros(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return _normal(shape, levels, g) * (_uniform(shape, levels, g) < 0.4)


def _one_nonzero(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    a = torch.zeros(shape, dtype=torch.float64)
    place = torch.randint(0, shape[1], (shape[0], 1), generator=g)
    return a.scatter_(1, place, _normal((shape[0], 1), levels, g))


def _powers_of_two(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return 2.0 ** torch.randint(-6, 7, shape, generator=g).double()


def _tiny_and_huge(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    exponents = torch.randint(-1, 2, shape, generator=g).double() * 30
    return _normal(shape, levels, g) * 10**exponents


def _denormals(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return torch.randint(0, 300, shape, generator=g).double() * 2.0**-149  # of float32


def _points_of_q(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    codes = levels[torch.randint(0, len(levels), shape, generator=g)]
    return codes * _normal((shape[0], 1), levels, g)


def _near_breakpoints(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    middles = (levels[1:] + levels[:-1]) / 2 if len(levels) > 1 else levels
    a = middles[torch.randint(0, len(middles), shape, generator=g)]
    a = a * _normal((shape[0], 1), levels, g)
    return a * (1 + torch.randint(-2, 3, shape, generator=g).double() * 2.0**-23)


def _heavy_tail(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    return (1 - _uniform(shape, levels, g)) ** -1.5


def _inverse_square_root(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    # |y|_(k) ~ sqrt(k) - sqrt(k - 1) makes ||y_[t]||_1^2 / t the same for every t: all cuts tie.
    order = torch.rand(shape, generator=g).argsort(1).double()
    return (order + 1).sqrt() - order.sqrt()


def _two_clusters(shape: Shape, levels: Tensor, g: torch.Generator) -> Tensor:
    centre = torch.where(_uniform(shape, levels, g) < 0.3, 1.0, 0.01)
    return (centre * (1 + 1e-3 * _normal(shape, levels, g))).abs()


KINDS: dict[str, Draw] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
    "ties": _ties,
    "all equal": _all_equal,
    "many zeros": _many_zeros,
    "one non-zero": _one_nonzero,
    "powers of two": _powers_of_two,
    "1e-30 and 1e30": _tiny_and_huge,
    "denormals": _denormals,
    "points of Q": _points_of_q,
    "near breakpoints": _near_breakpoints,
    "pareto tail": _heavy_tail,
    "all cuts nearly tie": _inverse_square_root,
    "two clusters": _two_clusters,
}


def magnitudes_of_kind(kind: str, shape: Shape, levels: Tensor, seed: int = 0) -> Tensor:
    """Rows of one kind, float64 (denormals are those of float32)."""
    return KINDS[kind](shape, levels, torch.Generator().manual_seed(seed))


def rows_of_every_kind(shape: Shape, levels: Tensor, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Signed rows, an equal share of each kind."""
    share = (-(-shape[0] // len(KINDS)), shape[1])
    a = torch.cat([magnitudes_of_kind(kind, share, levels, seed) for kind in KINDS])
    sign = torch.randint(0, 2, a.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    assert dtype in INTEGER
    return (a * sign)[torch.arange(len(a))].to(dtype)
