"""The paper's two remarks: on other metrics, and on linearized Bregman.

Metrics: inf over z in Q of ||z − x||²_D / 2, with ||v||²_D = vᵀ D v. For a quadratic f with matrix
A and float minimiser m, f(z) = ||z − m||²_A / 2. So projecting m onto Q in the metric D = A *is*
minimising f on Q, while the Euclidean projection ignores f altogether. The diagonal of A lies
between: known for a network's loss at least roughly, and as cheap as Euclid.

Linearized Bregman has the same two lines as BinaryRelax, with another proximal map. Both keep a
float sequence y that adds up gradients, and read x off it by a proximal map:

    linearized Bregman   y ← y − τ Aᵀ(Ax − b),  x = δ shrink(y, μ)
    BinaryRelax          y ← y − γ ∇f(x),       x = (λ proj_Q(y) + y) / (λ + 1)

Both come to rest only where the gradient is zero. When Ax = b has many solutions, the proximal map
decides which one is found: a sparse one there, one near Q here.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from binaryrelax import GeometricGrowth, Quantizer, Schedule, Ternary, distance
from binaryrelax.optim.relaxation import relax
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.lines_of_q import canonical_codes, code_vectors
from binaryrelax_lab.studies.theory.problems import Quadratic, figure_one
from binaryrelax_lab.studies.theory.significant_digits import rounded, rounded_list

STRENGTHS = (0.0, 0.1, 0.3, 1.0, 10.0)
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


def remarks() -> dict[str, Any]:
    """What is measured about both."""
    return {"metric": other_metrics(), "bregman": bregman()}


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


def _example(name: str, problem: Quadratic, quantizer: Quantizer, metric: Tensor) -> dict[str, Any]:
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


@dataclass(frozen=True, eq=False)
class Equations:
    """Fewer equations than unknowns, A x = b, with a solution that is sparse and lies in Q."""

    matrix: Tensor
    solution: Tensor

    @classmethod
    def random(cls, num_equations: int, num_unknowns: int, num_nonzero: int) -> "Equations":
        """Normal rows, of spectral norm 1 together; a solution of a few ±0.8."""
        source = torch.Generator().manual_seed(0)
        shape = (num_equations, num_unknowns)
        matrix = torch.randn(shape, generator=source, dtype=torch.float64)
        solution = torch.zeros(num_unknowns, dtype=torch.float64)
        places = torch.randperm(num_unknowns, generator=source)[:num_nonzero]
        signs = 2.0 * torch.randint(2, (num_nonzero,), generator=source).double() - 1
        solution[places] = 0.8 * signs
        return cls(matrix / torch.linalg.matrix_norm(matrix, 2), solution)

    def gradient(self, x: Tensor) -> Tensor:
        """Aᵀ(Ax − b), of ||Ax − b||² / 2."""
        return self.matrix.mT @ (self.matrix @ (x - self.solution))

    def residual(self, x: Tensor) -> Tensor:
        """||Ax − b|| / ||b||."""
        return (self.matrix @ (x - self.solution)).norm() / (self.matrix @ self.solution).norm()

    def error(self, x: Tensor) -> Tensor:
        """||x − solution|| / ||solution||."""
        return (x - self.solution).norm() / self.solution.norm()


def shrink(y: Tensor, threshold: float) -> Tensor:
    """argmin over u of ||u − y||² / (2μ) + ||u||₁: every entry goes μ nearer to 0."""
    return y.sign() * (y.abs() - threshold).clamp_min(0)


def linearized_bregman(
    equations: Equations, num_steps: int, *, threshold: float = 5.0, delta: float = 1.0
) -> Tensor:
    """x after so many steps of linearized Bregman from y = 0, with τ = 1."""
    y = torch.zeros_like(equations.solution)
    x = y
    for _ in range(num_steps):
        y = y - equations.gradient(x)
        x = delta * shrink(y, threshold)
    return x


def relaxed_descent(equations: Equations, num_steps: int, schedule: Schedule) -> Tensor:
    """x after so many steps of eq. 10 from y = 0 with γ = 1."""
    y = torch.zeros_like(equations.solution)
    x = y
    for step in range(num_steps):
        y = y - equations.gradient(x)
        x = relax(y, Ternary().project(y), schedule(step))
    return x


def bregman(*, num_steps: int = 2000) -> dict[str, Any]:
    """Which solution of the same equations each iteration finds."""
    equations = Equations.random(num_equations=30, num_unknowns=60, num_nonzero=8)
    found = {"linearized Bregman": linearized_bregman(equations, num_steps)}
    for name, schedule in schedules_of(num_steps).items():
        found[name] = relaxed_descent(equations, num_steps, schedule)
    return {
        "equations": 30,
        "unknowns": 60,
        "nonzero": 8,
        "steps": num_steps,
        "records": [_record(name, equations, x) for name, x in found.items()],
    }


def schedules_of(num_steps: int) -> dict[str, Schedule]:
    """λ held fixed at several values, and λ growing as in Algorithm 1."""
    fixed = {
        f"eq. 10, λ = {strength:g}": GeometricGrowth(strength, 1.0, 1, num_steps)
        for strength in STRENGTHS
    }
    phase_one = num_steps * 4 // 5
    growing = GeometricGrowth.reaching(150.0, phase_one_steps=phase_one, every=1)
    return {**fixed, "BinaryRelax, λ from 1 to 150, then ∞": growing}


def _record(name: str, equations: Equations, x: Tensor) -> dict[str, Any]:
    numbers = {
        "residual": equations.residual(x),
        "error": equations.error(x),
        "distance": distance(x, Ternary()),
        "sum_of_magnitudes": x.abs().sum(),
    }
    # What is left of exact zeros after rounding differs from machine to machine.
    return {
        "method": name,
        **{key: rounded(v, 4) if v > 1e-9 else 0.0 for key, v in numbers.items()},
    }
