import math

import pytest
import torch

from binaryrelax.quantizers import Binary, PerChannel, Ternary
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.lines_of_q import code_vectors
from binaryrelax_lab.studies.theory.local_minima import (
    Case,
    Minima,
    all_cases,
    all_methods,
    interval_over_members,
    run_case,
)
from binaryrelax_lab.studies.theory.quantities import is_local_minimizer
from binaryrelax_lab.studies.theory.relaxed_objective import minima_of_relaxation, relaxed_minima


def small_case(quantizer=None):
    family = QuadraticFamily.random(4, 5, condition=10.0, seed=0)
    return Case("small", family, quantizer or Binary(granularity=PerChannel()), 0.5, num_steps=200)


@pytest.mark.parametrize("kind", [Binary, Ternary])
def test_listed_minimum_is_the_lowest_value_on_q(kind):
    """No point of Q in a dense cloud is lower, and the cloud comes close."""
    case = small_case(kind(granularity=PerChannel()))
    best = Minima.of(case).values[:, 0]
    scales = torch.linspace(-3, 3, 601, dtype=torch.float64)
    cloud = (scales[:, None, None] * case.codes).reshape(-1, 5)
    lowest = case.family.value(cloud).amin(1)
    assert (lowest >= best - 1e-12).all()
    torch.testing.assert_close(lowest, best, rtol=1e-2, atol=1e-4)


def test_every_line_has_one_local_minimizer_and_zero_is_none():
    """On a line, the only point without a slope along the line is the minimizer."""
    case = small_case()
    lines = case.codes / case.codes.norm(dim=1, keepdim=True)
    matrix, center = case.family.matrices[0], case.family.minimisers[0]
    for line in lines:
        scale = (line @ matrix @ center) / (line @ matrix @ line)
        slopes = {}
        for factor in (0.5, 1.0, 1.5):
            point = factor * scale * line
            # f falls towards `aim`; near a point of Q only the slope along its line counts.
            aim = point - matrix @ (point - center)
            slopes[factor] = is_local_minimizer(point, aim, lines)
        assert slopes == {0.5: False, 1.0: True, 1.5: False}
    assert not is_local_minimizer(torch.zeros(5).double(), matrix @ center, lines)


def descend_on_relaxation(family, starts, quantizer, strength):
    """Plain gradient descent on eq. 9 from many starts, until it rests."""
    x = starts
    for _ in range(4000):
        gap = x - quantizer.project(x.reshape(-1, x.shape[-1])).reshape(x.shape)
        x = x - 0.9 / (1 + strength) * (family.gradient(x) + strength * gap)
    return x


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_minimizers_of_the_relaxation_are_where_descent_ends(strength):
    quantizer = Binary(granularity=PerChannel())
    family = QuadraticFamily.random(2, 4, condition=10.0, seed=3)
    counted = minima_of_relaxation(family, code_vectors(quantizer, 4), strength).sum(1)
    source = torch.Generator().manual_seed(0)
    starts = 2 * torch.randn((2, 300, 4), generator=source, dtype=torch.float64)
    ends = descend_on_relaxation(family, starts, quantizer, strength)
    for member in range(2):
        different = ends[member].round(decimals=4).unique(dim=0)
        assert len(different) == counted[member]


def test_relaxation_has_more_minima_the_stronger_it_is():
    found = relaxed_minima((1e-4, 1.0, 1e6), num_members=2)["by_strength"]
    assert found[0]["most"] == 1  # f itself is convex
    assert found[1]["least"] > 1 and found[1]["most"] < 512
    assert found[2]["least"] == found[2]["most"] == 512  # a twin of each minimizer of Q


def test_run_of_a_case():
    record = run_case(small_case(), num_starts=20)
    assert record["lines"] == 16
    assert len(record["methods"]) == 9
    for method in record["methods"]:
        assert 0 <= method["low"] <= method["best"] <= method["high"] <= 1
        assert 0 <= method["rank"] < 1 and method["excess"] >= 0
        assert (method["best"] == 1) == (method["rank"] == 0)
    assert record["methods"][1]["gain"] == 0  # BinaryConnect against itself
    assert run_case(small_case(), num_starts=20) == record


def test_schedules_end_where_they_say():
    for method in all_methods(1000)[2:]:
        final = float(method.name.split("to ")[1].split(",")[0])
        assert method.schedule(0) == 1.0
        assert method.schedule(799) == pytest.approx(final)
        assert method.schedule(800) == math.inf
        assert (method.schedule(160) == pytest.approx(final)) == method.name.endswith("fast")


def test_all_cases_can_be_listed():
    assert [len(case.codes) for case in all_cases(2)] == [512, 512, 512, 32768, 3280, 512]


def test_interval_is_wide_when_members_differ():
    low, high = interval_over_members(torch.tensor([0.0, 1.0] * 10).double())
    assert low < 0.35 and high > 0.65
    assert interval_over_members(torch.full((20,), 0.25).double()) == (0.25, 0.25)
