"""The classical projected gradient (eq. 2) stagnates at small learning rates; the others do not.

Its float point starts at x again in every step, so a step that does not reach the next level is
rounded off and forgotten. What it can still do is move along the line that it is on.
"""

from typing import Any

import torch
from torch import Tensor

from binaryrelax.lab.theory.descents import (
    BINARY_CONNECT,
    PROJECTED_GRADIENT,
    Descent,
    Method,
    cosine_rates,
)
from binaryrelax.lab.theory.families import QuadraticFamily
from binaryrelax.lab.theory.rounding import rounded
from binaryrelax.optim.schedules import GeometricGrowth
from binaryrelax.quantizers import Binary, PerChannel, Quantizer, Ternary

RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # times 1/L, and L = 1
FINAL_STRENGTH = 150.0
SETS = {"binary": Binary(granularity=PerChannel()), "ternary": Ternary(granularity=PerChannel())}


def stagnation_on_quadratics(
    *, num_members: int = 10, num_weights: int = 64, distance: float = 12.0, rates=RATES
) -> dict[str, Any]:
    """What each method does at each learning rate, with equally much learning in each run.

    Args:
        distance: the sum of a run's learning rates, which fall to 0 along a cosine. A run at a
            small rate takes more steps, so that it is not at a disadvantage.
    """
    family = QuadraticFamily.random(num_members, num_weights, condition=10.0, seed=5)
    source = torch.Generator().manual_seed(0)
    starts = torch.randn((num_members, 1, num_weights), generator=source, dtype=torch.float64)
    records = []
    for name, quantizer in SETS.items():
        for rate in rates:
            falling = cosine_rates(rate, round(2 * distance / rate))
            records += _at_rate(family, quantizer, starts, falling, name)
    return {
        "members": num_members,
        "weights": num_weights,
        "condition": 10.0,
        "distance": distance,
        "final_strength": FINAL_STRENGTH,
        "records": records,
    }


def methods_of(num_steps: int) -> list[Method]:
    """The three methods; BinaryRelax has its Phase I in the first four fifths."""
    schedule = GeometricGrowth.reaching(FINAL_STRENGTH, phase_one_steps=num_steps * 4 // 5, every=1)
    return [PROJECTED_GRADIENT, BINARY_CONNECT, Method("BinaryRelax", schedule)]


def _at_rate(
    family: QuadraticFamily, quantizer: Quantizer, starts: Tensor, rates: list[float], name: str
) -> list[dict[str, Any]]:
    methods = methods_of(len(rates))
    descent = Descent(family.gradient, quantizer, rates)
    run = descent.run(methods, starts)
    _, first = next(run)
    changed, last = torch.zeros_like(first, dtype=torch.bool), first
    for _, last in run:
        changed |= last.sign() != first.sign()
    relative = family.value(last) / family.value(first)
    return [
        {
            "set": name,
            "method": method.name,
            "rate": rates[0],
            "steps": len(rates),
            "changed": rounded(changed[i].double().mean()),
            "loss": rounded(relative[i].mean()),
        }
        for i, method in enumerate(methods)
    ]
