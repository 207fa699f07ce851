"""The lines that make up Q, listed one by one where there are few weights.

A line is given by a vector of codes, or by its unit vector, called its direction.
"""

import math

import torch
from torch import Tensor

from binaryrelax import Binary, Quantizer, Ternary

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
    names, line_of = torch.unique(canonical_codes(codes), dim=0, return_inverse=True)
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


def directions(quantizer: Quantizer, num_weights: int) -> Tensor:
    """The unit vectors of all lines of Q, one row each."""
    return unit_vectors(code_vectors(quantizer, num_weights))


def unit_vectors(rows: Tensor) -> Tensor:
    """The rows with length 1."""
    return rows / rows.norm(dim=1, keepdim=True)


def direction_of(x: Tensor) -> Tensor:
    """The direction of the one line through x != 0."""
    if not x.any():
        raise ValueError("direction_of(0): all lines of Q go through 0; choose one of directions()")
    return x / x.norm()


def onto_line(w: Tensor, direction: Tensor) -> Tensor:
    """proj_{L_i}(w)."""
    return (w @ direction) * direction


def smallest_angle(quantizer: Quantizer, num_weights: int) -> float:
    """θ_min, the smallest angle between two lines of Q; a right angle if there is only one line.

    Binary lines that differ in one sign have cos θ = (n - 2)/n; ternary ones with n and n - 1
    codes that are not 0 have cos θ = sqrt((n - 1)/n). Other sets are listed line by line.
    """
    if num_weights == 1:
        return math.pi / 2
    if quantizer == Binary():
        return math.acos((num_weights - 2) / num_weights)
    if quantizer == Ternary():
        return math.acos(math.sqrt((num_weights - 1) / num_weights))
    rows = directions(quantizer, num_weights)
    cosines = (rows @ rows.T).abs().fill_diagonal_(0)
    return math.acos(min(cosines.max().item(), 1.0))
