"""Where the paper's statements fail on admissible input, or their assumptions cannot be met."""

import itertools

import pytest
import torch

from binaryrelax import Binary, PerChannel, Quantizer, Ternary
from binaryrelax_lab.studies.theory.counterexamples import (
    EscapingValley,
    endless_changes,
    step_to_zero,
    threshold_step,
    tied_step,
    two_scales,
)
from binaryrelax_lab.studies.theory.lines_of_q import directions, smallest_angle
from binaryrelax_lab.studies.theory.problems import Quadratic
from binaryrelax_lab.studies.theory.quantities import (
    alpha,
    alphas,
    alternative_update,
    changes_line,
    is_local_minimizer,
    is_short,
    movements,
    stationarity,
    target,
    upper_bound_slack,
)
from binaryrelax_lab.studies.theory.statements import Case


@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_update_to_zero_is_no_local_minimizer_lem_alt_update(quantizer: Quantizer):
    """Its second half fails for every line through x^{k+1} = 0; the first half holds."""
    step, lines = step_to_zero(quantizer), directions(quantizer, 2)
    assert not step.next_y.any() and not step.next_x.any()
    for line in lines:
        assert alternative_update(step, line).norm() < 1e-15
        aim = target(step, line)
        assert not is_local_minimizer(step.next_x, aim, lines)
        nearer = [s * u for u, s in itertools.product(lines, (1e-6, -1e-6))]  # by the definition
        assert min((x - aim).norm() for x in nearer) < (step.next_x - aim).norm()
        assert upper_bound_slack(step, line) >= 0


@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_theorem_does_not_need_the_local_minimizer(quantizer: Quantizer):
    """At 0 the subdifferential of χ_Q holds all that is orthogonal to one line, which is enough.

    The proof of thm needs 0 in ∇f_k(x^k) + (x^{k+1} - x̃^k)/γ_k + ∂χ_Q(x^{k+1}).
    """
    step = step_to_zero(quantizer)
    for line in directions(quantizer, 2):
        wanted = target(step, line) - step.next_x  # γ_k times what must be in ∂χ_Q(0)
        assert (wanted @ line).abs() < 1e-15


def test_alpha_zero_is_attained_prop_alpha():
    step = tied_step()
    assert alpha(step) == 0 and not torch.equal(step.x, step.next_x)
    assert (step.y - step.x).norm() == (step.y - step.next_x).norm()
    assert step.gradient @ step.next_x == 0


def test_threshold_of_twn_breaks_approximate_orthogonality_lem_othor():
    """The lemma asks for the nearest point, which eq. 7 does not give."""
    step = threshold_step()
    assert alpha(step) == pytest.approx(-0.19, abs=1e-3)
    assert upper_bound_slack(step, step.next_x / step.next_x.norm()) < 0  # and lem:upper with it


def test_short_step_of_two_layers_has_another_alpha_prop_alpha():
    """With one scale per layer the proposition holds layer by layer only."""
    step, q = two_scales()
    assert is_short(step, smallest_angle(Binary(), 2))
    assert alpha(step) == pytest.approx(0.3846, abs=1e-4)
    second = Case(q.quantizer, type(step)(
        step.x[2:], step.y[2:], step.step_size, step.gradient[2:], step.next_x[2:], step.next_y[2:]
    ))  # fmt: skip
    assert not is_short(second.step, second.angle) and second.changes_line


@pytest.mark.parametrize("strength", [20.0, 1e3, 1e5])
def test_relaxed_minimizers_escape_to_another_value_prop_global(strength):
    """f is continuous and f >= 0, but f(x*_λ) -> 1/2 while f*_Q = 1."""
    f, q, per_row = EscapingValley(), Ternary(), Ternary(granularity=PerChannel())

    def relaxed(x):
        return f.value(x) + strength / 2 * (x - per_row.project(x)).square().sum(1)

    x = f.relaxed_minimizer(strength)
    u = x[0].item()
    assert f.value(x).item() == pytest.approx(0.5 - 1 / u, abs=1e-12)
    assert (x - q.project(x)).norm().item() == pytest.approx(u**-2, rel=1e-9)
    along = torch.cat([torch.linspace(-1, 4 * u, 500), torch.tensor([u])]).double()
    heights = torch.linspace(0, 2.2, 23).double()
    grid = torch.stack([
        along.repeat_interleave(23), heights.repeat(501) / along.square().repeat_interleave(23)
    ], 1)  # fmt: skip
    assert relaxed(x[None]).item() <= relaxed(grid).min() + 1e-12


def test_values_of_the_escaping_valley_on_q_are_one():
    """f*_Q = 1, and f is continuous where its pieces meet."""
    f = EscapingValley()
    scales = torch.linspace(-50, 50, 1001).double()
    for line in directions(Ternary(), 2):
        assert (f.value(scales[:, None] * line) == 1).all()
    edge = torch.tensor([[2.0, 0.25], [2 + 1e-9, 0.25], [3.0, 1 / 9], [3 + 1e-9, 1 / 9]]).double()
    values = f.value(edge)
    assert (values[::2] - values[1::2]).abs().max() < 1e-6
    assert f.value(f.relaxed_minimizer(1e9)).item() == pytest.approx(0.5, abs=1e-3)


def test_lines_change_for_ever_when_no_critical_point_is_in_q_thm():
    """Without noise and with the theorem's step sizes, neither of its conclusions comes true.

    Its assumption fails: α_k goes to 0 with γ_k.
    """
    problem, run = endless_changes()
    changed, found = changes_line(run), alphas(run)
    assert changed[-1000:].sum() >= 400
    sizes = torch.tensor(run.step_sizes, dtype=torch.float64)
    assert (found[changed] / sizes[changed]).max() < 0.5  # α_k is at most half of γ_k
    assert movements(run)[-1000:].max() > 3.9  # the first conclusion: to 0
    least = min(stationarity(problem, x).item() ** 2 for x in run.x[-1000:])
    assert least == pytest.approx(0.5, abs=0.01)  # the second: at most 3σ²(...) = 0
    assert isinstance(problem, Quadratic) and problem.sigma == 0


def test_drift_beside_the_line_is_what_changes_it():
    """y ends between the two lines, at (4, 0), and x at a distance from it that does not shrink."""
    _, run = endless_changes()
    torch.testing.assert_close(run.y[-1], torch.tensor([4.0, 0.0]).double(), atol=0.02, rtol=0)
    assert {tuple(x.round().tolist()) for x in run.x[-100:]} == {(2.0, 2.0), (2.0, -2.0)}
