"""The methods of the tables, each as a change of the float recipe it starts from."""

import math
from dataclasses import replace
from typing import TypeVar

from binaryrelax import Binary, Ternary, TernaryThreshold
from binaryrelax_lab.recipes.name import METHOD_NAMES
from binaryrelax_lab.recipes.recipe import Recipe

R = TypeVar("R", bound=Recipe)
PAPER_METHODS = ("float", "bwn", "binary", "twn", "ternary")  # the columns of Tables 1 and 2
BASELINES = ("bwn", "twn")  # BinaryConnect: λ = ∞ from the first step on
PROJECTIONS = {  # BinaryRelax uses the projection of its baseline, as in the paper
    "bwn": Binary(),
    "binary": Binary(),
    "twn": TernaryThreshold(ratio=0.7),
    "ternary": TernaryThreshold(ratio=0.7),
    "ternary-exact": Ternary(),
}


def by_method(start: R, method: str, *, growth: float, growth_every_epochs: float) -> R:
    """The recipe that trains the network of the float recipe `start` by another method.

    Args:
        start: its name tells the method float.
        method: one of `METHOD_NAMES`; float returns `start`.
        growth: of BinaryRelax, whose λ starts at 1; the baselines have no use for it.
        growth_every_epochs: how many epochs pass between two growths.
    """
    if method == "float":
        return start
    if method not in PROJECTIONS:
        raise ValueError(f"method={method!r}: it must be one of {', '.join(METHOD_NAMES)}")
    is_hard = method in BASELINES
    return replace(
        start,
        name=start.name.with_method(method),
        method=method,
        quantizer=PROJECTIONS[method],
        initial_strength=math.inf if is_hard else 1.0,
        growth=None if is_hard else growth,
        growth_every_epochs=None if is_hard else growth_every_epochs,
        starts_from=start.name,
    )
