"""The paper's remarks on other metrics and on linearized Bregman, as worked examples."""

import itertools

import pytest
import torch

from binaryrelax.optim.schedules import GeometricGrowth
from binaryrelax.quantizers import Binary, Ternary
from binaryrelax_lab.studies.theory.remarks import (
    Equations,
    bregman,
    linearized_bregman,
    other_metrics,
    penalty_in_metric,
    project_in_metric,
    relaxed_descent,
    shrink,
)


@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_projection_in_euclid_s_metric_is_the_projection(quantizer):
    source = torch.Generator().manual_seed(0)
    for x in torch.randn((20, 4), generator=source, dtype=torch.float64):
        found = project_in_metric(x, quantizer, torch.eye(4, dtype=torch.float64))
        torch.testing.assert_close(found, quantizer.project(x))


def test_projection_in_another_metric_equals_a_search():
    source = torch.Generator().manual_seed(1)
    root = torch.randn((3, 3), generator=source, dtype=torch.float64)
    metric = root @ root.T + 0.1 * torch.eye(3, dtype=torch.float64)
    scales = torch.linspace(0, 4, 2001, dtype=torch.float64)
    codes = torch.tensor(list(itertools.product((-1, 0, 1), repeat=3)), dtype=torch.float64)
    cloud = (scales[:, None, None] * codes).reshape(-1, 3)
    for x in torch.randn((5, 3), generator=source, dtype=torch.float64):
        gaps = cloud - x
        searched = (gaps @ metric * gaps).sum(1).min() / 2
        torch.testing.assert_close(
            penalty_in_metric(x, Ternary(), metric), searched, rtol=0, atol=1e-4
        )


def test_the_metric_of_the_hessian_finds_the_best_point_of_q():
    found = other_metrics(num_members=10, num_weights=5)
    euclid, _, hessian = found["metrics"]
    assert hessian["best"] == 1.0 and hessian["ratio"] == 1.0
    assert euclid["best"] < 1.0
    losses = [record["loss"] for record in found["example"]["metrics"]]
    assert losses[-1] == min(losses)


def test_shrink_is_the_proximal_map_of_the_sum_of_magnitudes():
    y = torch.tensor([3.0, -0.4, 0.0, -2.0], dtype=torch.float64)
    u = torch.linspace(-4, 4, 80001, dtype=torch.float64)
    searched = u[((u - y[:, None]).square() / (2 * 0.7) + u.abs()).argmin(1)]
    torch.testing.assert_close(shrink(y, 0.7), searched, rtol=0, atol=1e-4)


def test_linearized_bregman_recovers_the_sparse_solution():
    equations = Equations.random(num_equations=30, num_unknowns=60, num_nonzero=8)
    x = linearized_bregman(equations, 2000)
    assert equations.residual(x) < 1e-6 and equations.error(x) < 1e-6


def test_eq_10_without_relaxation_finds_the_solution_of_least_norm():
    equations = Equations.random(num_equations=10, num_unknowns=20, num_nonzero=4)
    x = relaxed_descent(equations, 2000, GeometricGrowth(0.0, 1.0, 1, 10**6))
    right = equations.matrix @ equations.solution
    torch.testing.assert_close(x, torch.linalg.pinv(equations.matrix) @ right)


def test_relaxation_ends_in_q_but_does_not_solve_the_equations():
    records = {record["method"]: record for record in bregman(num_steps=300)["records"]}
    last = records["BinaryRelax, λ from 1 to 150, then ∞"]
    assert last["distance"] == 0
    assert last["residual"] > 0.1
