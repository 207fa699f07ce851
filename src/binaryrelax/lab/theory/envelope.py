"""The Moreau envelope λ/2 dist(x, Q)² and the relaxed objective (eq. 9), along runs of eq. 10."""

from typing import Any

import torch
from torch import Tensor

from binaryrelax import GeometricGrowth, Quantizer, Ternary, distance
from binaryrelax.lab.theory.descents import Descent, Method, cosine_rates
from binaryrelax.lab.theory.families import QuadraticFamily
from binaryrelax.lab.theory.iterations import binary_relax
from binaryrelax.lab.theory.lines import code_vectors
from binaryrelax.lab.theory.problems import Quadratic
from binaryrelax.lab.theory.rounding import rounded
from binaryrelax.quantizers import Binary, PerChannel

FIXED_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
AT_REST = 1e-6  # length of a step, or of a gradient, that counts as none


def moreau_envelope(x: Tensor, quantizer: Quantizer, strength: float) -> Tensor:
    """min over z in Q of λ/2 ||z − x||², the envelope of Q's indicator: λ/2 dist(x, Q)²."""
    return strength / 2 * distance(x, quantizer).square()


def envelope_along_a_run(*, num_weights: int = 20, num_steps: int = 300) -> dict[str, Any]:
    """f, the envelope and their sum at x^k, and f at proj(x^k), while λ grows from 1 to 150."""
    problem, quantizer = Quadratic.random(num_weights, seed=7), Ternary()
    phase_one = num_steps * 4 // 5
    schedule = GeometricGrowth.reaching(150.0, phase_one_steps=phase_one, every=10)
    start = torch.randn(
        num_weights, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    run = binary_relax(problem, quantizer, start, cosine_rates(0.5, num_steps), schedule=schedule)
    records = []
    for step, x in enumerate(run.x):
        strength = schedule(max(step - 1, 0))
        penalty = moreau_envelope(x, quantizer, strength) if step <= phase_one else torch.zeros(())
        records.append(
            {
                "step": step,
                "strength": rounded(strength) if step <= phase_one else None,
                "distance": rounded(distance(x, quantizer)),
                "loss": rounded(problem.value(x)),
                "envelope": rounded(penalty),
                "relaxed": rounded(problem.value(x) + penalty),
                "projected_loss": rounded(problem.value(quantizer.project(x))),
            }
        )
    return {"weights": num_weights, "phase_one": phase_one, "records": records}


def fixed_strengths(
    *, num_members: int = 10, num_starts: int = 20, num_steps: int = 1500, rate: float = 0.5
) -> dict[str, Any]:
    """Where eq. 10 goes when λ does not grow: is it a minimiser of eq. 9?

    y moves until ∇f(x) = 0, so that is the only place to come to rest. The minimum of eq. 9 is
    found by listing the lines: on each, f + λ/2 dist(·, line)² is a quadratic.
    """
    quantizer = Binary(granularity=PerChannel())
    family = QuadraticFamily.random(num_members, 8, condition=10.0, seed=9)
    source = torch.Generator().manual_seed(0)
    starts = torch.randn((num_members, num_starts, 8), generator=source, dtype=torch.float64)
    methods = [
        Method(f"λ = {s:g}", GeometricGrowth(s, 1.0, 1, num_steps + 1)) for s in FIXED_STRENGTHS
    ]
    descent = Descent(family.gradient, quantizer, [rate] * num_steps)
    before = after = starts
    for x, _ in descent.run(methods, starts):
        before, after = after, x
    moved = (after - before).norm(dim=-1)
    slopes = family.gradient(after).norm(dim=-1)
    values = family.value(after)
    square = (after - descent.project(after)).square().sum(-1)
    return {
        "members": num_members,
        "starts": num_members * num_starts,
        "weights": 8,
        "rate": rate,
        "steps": num_steps,
        "by_strength": [
            {
                "strength": strength,
                "at_rest": rounded((moved[i] < AT_REST).double().mean()),
                "critical_of_f": rounded((slopes[i] < AT_REST).double().mean()),
                "relaxed": rounded((values[i] + strength / 2 * square[i]).mean()),
                "least_relaxed": rounded(least_relaxed(family, quantizer, strength).mean()),
            }
            for i, strength in enumerate(FIXED_STRENGTHS)
        ],
    }


def least_relaxed(family: QuadraticFamily, quantizer: Quantizer, strength: float) -> Tensor:
    """min over x of f(x) + λ/2 dist(x, Q)² for each member of the family, by listing the lines."""
    codes = code_vectors(quantizer, family.minimisers.shape[1])
    points = relaxed_minimisers(family, codes, strength)
    units = codes / codes.norm(dim=1, keepdim=True)
    square = points.square().sum(-1) - (points * units).sum(-1).square()
    return (family.value(points) + strength / 2 * square).amin(1)


def relaxed_minimisers(family: QuadraticFamily, codes: Tensor, strength: float) -> Tensor:
    """argmin of f + λ/2 dist(·, line)² for each line, (members, lines, weights)."""
    units = codes / codes.norm(dim=1, keepdim=True)
    identity = torch.eye(codes.shape[1], dtype=codes.dtype)
    across = strength * (identity - units[:, :, None] * units[:, None, :])
    pull = family.matrices @ family.minimisers[:, :, None]
    solved = [
        torch.linalg.solve(matrix + across, target[:, 0].expand(len(codes), -1))
        for matrix, target in zip(family.matrices, pull, strict=True)
    ]
    return torch.stack(solved)
