"""The lines that make up Q when there are few weights, listed one by one."""

import torch
from torch import Tensor

from binaryrelax.quantizers import Quantizer

MOST_WEIGHTS = 16  # 2^15 lines of binary codes; ternary ones are listed up to 10 weights


def code_vectors(quantizer: Quantizer, num_weights: int) -> Tensor:
    """One vector of codes for each line of Q, (lines, weights), the first code not 0 positive.

    Codes c and 2c span the same line; only the smaller one is kept.
    """
    levels = torch.tensor(quantizer.codebook, dtype=torch.float64)
    if num_weights > MOST_WEIGHTS or len(levels) ** num_weights > 2**MOST_WEIGHTS:
        raise ValueError(
            f"code_vectors({quantizer!r}, {num_weights}): {len(levels)}^{num_weights} codes are "
            f"too many to list; take at most {2**MOST_WEIGHTS:,}"
        )
    codes = torch.cartesian_prod(*[levels] * num_weights).reshape(-1, num_weights)
    codes = codes[(codes != 0).any(1)]
    codes = codes[codes.norm(dim=1).argsort(stable=True)]
    names, line_of = canonical_codes(codes).unique(dim=0, return_inverse=True)
    places = torch.arange(len(codes))
    first = torch.full((len(names),), len(codes)).scatter_reduce(0, line_of, places, "amin")
    chosen = codes[first]
    return chosen * _first_sign(chosen) + 0.0


def canonical_codes(points: Tensor) -> Tensor:
    """A vector that is the same for all points of a line of Q; the last dimension is the weights.

    Its largest magnitude is 1 and its first number that is not 0 is positive. It is rounded to 9
    decimals, so that it tells lines apart, and is exact where all codes are 0 and ±1.
    """
    largest = points.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(points.dtype).tiny)
    upright = _first_sign(points) * points
    return (upright / largest).round(decimals=9) + 0.0  # no negative zeros


def _first_sign(points: Tensor) -> Tensor:
    """The sign of the first number that is not 0."""
    first = (points != 0).to(torch.uint8).argmax(-1, keepdim=True)
    return points.gather(-1, first).sign()
