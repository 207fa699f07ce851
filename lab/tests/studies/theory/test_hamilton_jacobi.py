import pytest
import torch

from binaryrelax_lab.studies.theory.hamilton_jacobi import (
    bumpy,
    godunov,
    hamilton_jacobi,
    hopf_lax,
    to_levels,
)


def by_descent(x, time):
    """min over z of g(z) + (z − x)²/2t, from many starts by Newton's method with damping."""
    z = torch.linspace(-3, 3, 25, dtype=torch.float64).expand(len(x), -1)
    for _ in range(4000):
        slope = -3 * torch.sin(3 * z) + z / 2 + (z - x[:, None]) / time
        z = z - 0.05 * slope / (1 + 1 / time)
    return (bumpy(z) + (z - x[:, None]).square() / (2 * time)).amin(1)


@pytest.mark.parametrize("time", [0.1, 0.5, 2.0])
def test_hopf_lax_equals_a_direct_minimisation(time):
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    z = torch.linspace(-4, 4, 8001, dtype=torch.float64)
    torch.testing.assert_close(hopf_lax(bumpy, x, time, z), by_descent(x, time), rtol=0, atol=1e-5)


def test_envelope_of_the_levels_is_the_penalty_with_strength_one_over_time():
    x = torch.tensor([0.3, -0.6, 1.4], dtype=torch.float64)
    gaps = torch.tensor([0.3, 0.4, 0.4], dtype=torch.float64)
    torch.testing.assert_close(to_levels(x, 0.25), 4.0 / 2 * gaps.square())


def test_going_on_from_a_later_time_gives_the_same():
    """The envelope of an envelope: t and then s is t + s."""
    x = torch.linspace(-1, 1, 21, dtype=torch.float64)
    z = torch.linspace(-3, 3, 6001, dtype=torch.float64)
    later = hopf_lax(lambda points: to_levels(points, 0.1), x, 0.3, z)
    torch.testing.assert_close(later, to_levels(x, 0.4), rtol=0, atol=1e-6)


def test_finite_differences_converge_to_hopf_lax():
    found = hamilton_jacobi((51, 101, 201))["refinement"]
    for key in ("levels", "smooth"):
        errors = [record[key] for record in found]
        assert errors[0] < 0.1
        assert errors[1] < 0.65 * errors[0] and errors[2] < 0.65 * errors[1]


def test_a_straight_line_moves_down_as_a_whole():
    x = torch.linspace(-1, 1, 21, dtype=torch.float64)
    torch.testing.assert_close(godunov(2 * x, 0.1, 0.3), 2 * x - 0.3 * 2**2 / 2)
