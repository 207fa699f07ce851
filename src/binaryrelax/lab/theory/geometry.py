"""The two drawings of the paper that explain the geometry: its Figures 1 and 4, as numbers."""

from typing import Any

import torch

from binaryrelax.lab.theory.iterations import Step
from binaryrelax.lab.theory.lines import code_vectors
from binaryrelax.lab.theory.quantities import alternative_update, direction_of, projected_start
from binaryrelax.lab.theory.rounding import rounded_list
from binaryrelax.quantizers import Ternary

EXAMPLES = ((1.3, 0.42), (0.55, 1.35), (-0.3, 1.05), (-1.5, 1.05), (1.35, -0.95))
Y, SHIFT = (1.5, 0.6), (-0.12, 0.46)  # y^k and −γ_k ∇f_k(x^k) of Figure 4


def figure_one_data() -> dict[str, Any]:
    """The lines of Q for two ternary weights, and points with their projections."""
    quantizer = Ternary()
    points = [torch.tensor(point, dtype=torch.float64) for point in EXAMPLES]
    return {
        "lines": rounded_list(code_vectors(quantizer, 2)),
        "projections": [
            {"point": rounded_list(y), "projection": rounded_list(quantizer.project(y))}
            for y in points
        ],
    }


def figure_four_data() -> dict[str, Any]:
    """One step of BinaryConnect that changes line, and the alternative update that explains it."""
    quantizer = Ternary()
    y, shift = (torch.tensor(v, dtype=torch.float64) for v in (Y, SHIFT))
    x, next_y = quantizer.project(y), y + shift
    next_x = quantizer.project(next_y)
    step = Step(x, y, 1.0, -shift, next_x, next_y)
    line = direction_of(next_x)
    start = projected_start(step, line)
    points = {
        "y": y,
        "x": x,
        "next_y": next_y,
        "next_x": next_x,
        "x_tilde": start,
        "target": start + shift,
        "alternative": alternative_update(step, line),
    }
    return {
        "lines": rounded_list(code_vectors(quantizer, 2)),
        **{name: rounded_list(point) for name, point in points.items()},
    }
