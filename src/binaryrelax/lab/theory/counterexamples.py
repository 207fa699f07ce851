"""Where a statement of the paper fails, or stops short of what one would read into it.

Each is small enough to follow by hand; ``docs/theory.md`` shows them and tests pin them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from binaryrelax import Binary, Quantizer, TernaryThreshold
from binaryrelax.lab.theory.iterations import LayerWise, Step, Trajectory, binary_connect, harmonic
from binaryrelax.lab.theory.problems import Quadratic
from binaryrelax.lab.theory.statements import make_step


def _vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


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
