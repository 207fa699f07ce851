"""α_k step by step along two runs of BinaryConnect whose learning rate falls."""

from typing import Any

from binaryrelax import Binary
from binaryrelax.lab.theory.counterexamples import endless_changes
from binaryrelax.lab.theory.iterations import Trajectory, binary_connect, harmonic
from binaryrelax.lab.theory.problems import Quadratic, random_numbers
from binaryrelax.lab.theory.quantities import alphas, changes_line
from binaryrelax.lab.theory.rounding import rounded

MOST_POINTS = 400  # in the figure


def alpha_by_step(*, num_steps: int = 4000) -> dict[str, Any]:
    """α_k at changes of line and γ_k: on a noisy quadratic, and where nothing ever settles."""
    problem = Quadratic.random(8, L=2.0, sigma=1.0, seed=3)
    sizes = harmonic(0.1, num_steps)
    noisy = binary_connect(problem, Binary(), random_numbers(8, seed=5), sizes)
    _, endless = endless_changes(num_steps)
    return {"noisy": _changes(noisy), "without_noise": _changes(endless)}


def _changes(run: Trajectory) -> dict[str, Any]:
    """Steps that changed line, their α and their γ; so many that the figure is not overfull."""
    found, changed = alphas(run), changes_line(run)
    steps = changed.nonzero()[:, 0].tolist()
    shown = steps[:: max(1, len(steps) // MOST_POINTS)]
    return {
        "steps": len(run),
        "line_changes": len(steps),
        "points": [
            [step, rounded(found[step], 4), rounded(run.step_sizes[step], 4)] for step in shown
        ],
    }
