"""Where a statement of the paper fails, or stops short of what one would read into it.

Each is small enough to follow by hand; ``docs/evidence/theory.md`` shows them and tests pin them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from binaryrelax import Binary, Quantizer, TernaryThreshold
from binaryrelax_lab.studies.theory.iterations import (
    LayerWise,
    Step,
    Trajectory,
    binary_connect,
    harmonic,
)
from binaryrelax_lab.studies.theory.problems import Quadratic
from binaryrelax_lab.studies.theory.statements import make_step

_FILE = "lab/tests/studies/theory/test_counterexamples.py"
# The rows of the table of statements that do not read "holds".
FAILURES: list[dict[str, Any]] = [
    {
        "label": "prop:global, any continuous f",
        "says": "f(x*_λ) -> f*_Q if f is only continuous (and bounded below)",
        "test": f"{_FILE}::test_relaxed_minimizers_escape_to_another_value_prop_global",
        "cases": 3,
        "failures": 3,
        "result": "fails",
        "counterexample": "f(u, v) = 1 - ρ(u)(1/2 + 1/u)φ(v u^2) over two ternary weights: "
        "x*_λ = (u, u^-2) with u = (2λ)^(1/3) runs to infinity beside the line v = 0, "
        "dist(x*_λ, Q) -> 0, but f(x*_λ) -> 1/2 while f*_Q = 1. It holds where minimizers stay "
        "bounded.",
    },
    {
        "label": "lem:alt_update, local minimizer at 0",
        "says": "x^{k+1} is a local minimizer over Q also where it is 0",
        "test": f"{_FILE}::test_update_to_zero_is_no_local_minimizer_lem_alt_update",
        "cases": 2,
        "failures": 2,
        "result": "fails",
        "counterexample": "f(x) = ||x - (-13/2, -5/2)||^2/2, γ = 1/4, y^k = (2, 1): y^{k+1} = 0, "
        "and on the line of (1, 1) the point to project is (-1/2, 1/2), itself in Q. The proof of "
        "the theorem does not need this half: at 0, ∂χ_Q holds all that is orthogonal to a line.",
    },
    {
        "label": "lem:othor with TWN's threshold",
        "says": "α_k >= 0 with the projection (7) of the paper's ternary experiments",
        "test": f"{_FILE}::test_threshold_of_twn_breaks_approximate_orthogonality_lem_othor",
        "cases": 1,
        "failures": 1,
        "result": "fails outside its assumptions",
        "counterexample": "y^k = (1, 0.5), y^{k+1} = (1, 0.55): α_k = -0.19, because (7) is not "
        "the nearest point. lem:upper fails with it.",
    },
    {
        "label": "prop:alpha with one scale per layer",
        "says": "short steps of the whole network have α_k = 1",
        "test": f"{_FILE}::test_short_step_of_two_layers_has_another_alpha_prop_alpha",
        "cases": 1,
        "failures": 1,
        "result": "fails outside its assumptions",
        "counterexample": "layers (10, 10) and (0.1, 0.02): the second changes line, the network "
        "moves by 1 % of its norm, α_k = 0.38. Layer by layer it holds.",
    },
    {
        "label": "thm, its assumption α_k >= α̲ > 0",
        "says": "can be met with Σγ_k = inf and Σγ_k² < inf",
        "test": f"{_FILE}::test_lines_change_for_ever_when_no_critical_point_is_in_q_thm",
        "cases": 1,
        "failures": 1,
        "result": "only if f has a critical point in Q (argued for σ = 0, measured with noise)",
        "counterexample": "f(x) = ||x - (2, 1)||^2/2 over two binary weights, no noise: x jumps "
        "between (2, 2) and (2, -2) for ever, α_k <= γ_k/2 at each jump, "
        "liminf dist(0, ∂h)^2 = 1/2 where the bound would be 0.",
    },
]


def _vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@dataclass(frozen=True)
class EscapingValley:
    """A continuous f: R^2 -> [0, 1] for which prop:global fails, with Q = R_+ × {0, ±1}^2.

    f(u, v) = 1 - ρ(u) (1/2 + 1/u) φ(v u^2),  φ(t) = max(0, 1 - |t - 1|),  ρ(u) = u - 2 in [0, 1]

    A valley runs beside the line v = 0 and comes ever closer to it, at v = 1/u^2. On Q itself f is
    1. For λ >= 27/2 the minimizer of (9) is in the valley at u = (2λ)^(1/3): it runs to infinity,
    where dist(x*_λ, Q) -> 0 but f(x*_λ) -> 1/2. The proof takes f(proj(x)) - f(x) to 0 with
    ||proj(x) - x||, which needs minimizers that stay bounded, or an f that is uniformly continuous.
    """

    num_weights: int = 2

    def value(self, x: Tensor) -> Tensor:
        """f at (u, v), or at each row."""
        u, v = x[..., 0], x[..., 1]
        depth = (u - 2).clamp(0, 1) * (0.5 + 1 / u.clamp(min=2))
        return 1 - depth * (1 - (v * u.square() - 1).abs()).clamp(min=0)

    def relaxed_minimizer(self, strength: float) -> Tensor:
        """x*_λ for λ >= 27/2."""
        u = (2 * strength) ** (1 / 3)
        return torch.tensor([u, u**-2], dtype=torch.float64)


def step_to_zero(quantizer: Quantizer) -> Step:
    """y^{k+1} = 0: the second half of lem:alt_update fails for every choice of the line.

    f(x) = ||x - (-13/2, -5/2)||^2 / 2 and γ = 1/4 take y^k = (2, 1), x^k = (3/2, 3/2) to
    y^{k+1} = 0 and x^{k+1} = 0. On the line of x^k the lemma projects x̃^k - γ∇f = (-1/2, 1/2),
    which is itself in Q, so that 0 is not even a local minimizer. The proof says that x^{k+1} = 0
    only if the point to project is 0; it is 0 whenever that point is orthogonal to the line.
    """
    problem = Quadratic(torch.eye(2, dtype=torch.float64), _vector(-6.5, -2.5))
    y = _vector(2, 1)
    return make_step(quantizer, y, problem.gradient(quantizer.project(y)), 0.25)


def tied_step() -> Step:
    """α_k = 0 is attained, as prop:alpha allows: y^k = (4, 0) has two nearest binary points.

    The step is orthogonal to the line of the other one, x^{k+1} = (2, -2).
    """
    return make_step(Binary(), _vector(4, 0), _vector(1, 1), 1.0)


def threshold_step() -> Step:
    """TWN's threshold (eq. 7) is no nearest point, and lem:othor fails with it: α_k is -0.19.

    y^k = (1, 1/2) goes to (1, 0), although (3/4, 3/4) is nearer; a small step later the threshold
    finds the better line.
    """
    return make_step(TernaryThreshold(), _vector(1, 0.5), _vector(0, -1), 0.05)


def two_scales() -> tuple[Step, LayerWise]:
    """One scale per layer: prop:alpha fails for the network as a whole, and holds per layer.

    The second layer is small and changes line. That is a short way measured against the norm of the
    whole network, but α_k is not 1.
    """
    q = LayerWise(Binary(), (2, 2))
    return make_step(q, _vector(10, 10, 0.1, 0.02), _vector(0, 0, 0, 1), 0.1), q


def endless_changes(num_steps: int = 4000) -> tuple[Quadratic, Trajectory]:
    """A run without noise that never settles: f(x) = ||x - (2, 1)||^2 / 2 over binary weights.

    γ_k = 0.1 / (1 + k/100), so that Σγ_k = inf and Σγ_k² < inf. y goes to (4, 0), between two
    lines, and x jumps between (2, 2) and (2, -2) for ever. At each jump α_k is of the order of γ_k,
    so that no α̲ > 0 exists: ||x^{k+1} - x^k|| does not go to 0, and dist(0, ∂h(x^k))^2, which would
    have to come arbitrarily close to 3σ²(...) = 0, is never less than about 1/2.

    It is the rule and not the exception. While x stays on a line and γ_k sums to infinity, the part
    of y beside the line moves by -Σ γ_k ∇f, out of every bounded set unless ∇f goes to 0; the part
    of R^n that projects on a bounded piece of a line is bounded. So lines change for ever unless f
    has a critical point in Q; and α_k goes to 0 with γ_k at each change (``alpha_ceiling``).
    """
    problem = Quadratic(torch.eye(2, dtype=torch.float64), _vector(2, 1))
    sizes = harmonic(0.1, num_steps)
    return problem, binary_connect(problem, Binary(), _vector(1, 0.5), sizes)
