"""The remark on other metrics: inf over z in Q of ||z − x||²_D / 2, with ||v||²_D = vᵀ D v.

For a quadratic f with matrix A and float minimiser m, f(z) = ||z − m||²_A / 2. So projecting m onto
Q in the metric D = A *is* minimising f on Q, while the Euclidean projection ignores f altogether.
The diagonal of A lies between: known for a network's loss at least roughly, and as cheap as Euclid.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from binaryrelax.lab.theory.families import QuadraticFamily
from binaryrelax.lab.theory.lines import canonical_codes, code_vectors
from binaryrelax.lab.theory.problems import figure_one
from binaryrelax.lab.theory.rounding import rounded, rounded_list
from binaryrelax.quantizers import Quantizer, Ternary

_code_vectors = lru_cache(code_vectors)


def project_in_metric(x: Tensor, quantizer: Quantizer, metric: Tensor) -> Tensor:
    """The point of Q nearest to x in the metric D, by listing the lines of Q.

    On the line of codes c the nearest point is s·c with s = ⟨c, Dx⟩ / ⟨c, Dc⟩.
    """
    codes = _code_vectors(quantizer, len(x))
    along = codes @ (metric @ x)
    bend = (codes @ metric * codes).sum(1)
    best = (along.square() / bend).argmax()
    return along[best] / bend[best] * codes[best]


def penalty_in_metric(x: Tensor, quantizer: Quantizer, metric: Tensor) -> Tensor:
    """inf over z in Q of ||z − x||²_D / 2."""
    gap = x - project_in_metric(x, quantizer, metric)
    return gap @ metric @ gap / 2


def other_metrics(*, num_members: int = 100, num_weights: int = 7) -> dict[str, Any]:
    """The example of Figure 1 in three metrics, and how often each finds the best line of Q."""
    problem, quantizer = figure_one()
    family = QuadraticFamily.random(num_members, num_weights, condition=100.0, seed=11)
    best = family.best_on_lines(code_vectors(Ternary(), num_weights)).amin(1)
    return {
        "example": {
            "float_minimiser": rounded_list(problem.center),
            "metrics": [
                _example(name, problem, quantizer, metric)
                for name, metric in metrics_of(problem.matrix).items()
            ],
        },
        "members": num_members,
        "weights": num_weights,
        "condition": 100.0,
        "metrics": [_over_members(name, family, best) for name in metrics_of(problem.matrix)],
    }


def metrics_of(matrix: Tensor) -> dict[str, Tensor]:
    """Euclid's metric, the diagonal of A, and A itself."""
    identity = torch.eye(len(matrix), dtype=matrix.dtype)
    return {"Euclid, D = I": identity, "D = diag A": matrix.diag().diag(), "D = A": matrix}


def _example(name: str, problem: Any, quantizer: Quantizer, metric: Tensor) -> dict[str, Any]:
    point = project_in_metric(problem.center, quantizer, metric)
    return {
        "metric": name,
        "point": rounded_list(point),
        "penalty": rounded(penalty_in_metric(problem.center, quantizer, metric)),
        "loss": rounded(problem.value(point)),
    }


def _over_members(name: str, family: QuadraticFamily, best: Tensor) -> dict[str, Any]:
    """f on the line where the float minimiser is projected, at its best scale, against the best."""
    points = [
        project_in_metric(center, Ternary(), metrics_of(matrix)[name])
        for matrix, center in zip(family.matrices, family.minimisers, strict=True)
    ]
    values = family.best_on_lines(canonical_codes(torch.stack(points)[:, None]))[:, 0]
    return {
        "metric": name,
        "best": rounded((values <= best * (1 + 1e-9)).double().mean()),
        "ratio": rounded((values / best).median()),
    }
