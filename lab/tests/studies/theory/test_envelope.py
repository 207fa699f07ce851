import pytest
import torch

from binaryrelax.quantizers import Binary, Ternary, distance
from binaryrelax_lab.studies.theory.envelope import envelope_along_a_run, fixed_strengths
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.lines_of_q import code_vectors
from binaryrelax_lab.studies.theory.relaxed_objective import least_relaxed, moreau_envelope


@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_envelope_is_the_smallest_penalised_distance(quantizer):
    """Against a search over a dense cloud of points of Q."""
    scales = torch.linspace(-3, 3, 6001, dtype=torch.float64)
    cloud = (scales[:, None, None] * code_vectors(quantizer, 3)).reshape(-1, 3)
    source = torch.Generator().manual_seed(0)
    for x in torch.randn((10, 3), generator=source, dtype=torch.float64):
        searched = (4.0 / 2 * (cloud - x).square().sum(1)).min()
        torch.testing.assert_close(moreau_envelope(x, quantizer, 4.0), searched, rtol=0, atol=1e-5)


def test_least_relaxed_value_lies_between_both_problems_and_below_every_point():
    quantizer = Binary()
    family = QuadraticFamily.random(3, 5, condition=10.0, seed=0)
    on_q = family.best_on_lines(code_vectors(quantizer, 5)).amin(1)
    least = least_relaxed(family, quantizer, 1.0)
    assert (least > 0).all() and (least < on_q).all()
    source = torch.Generator().manual_seed(0)
    points = family.minimisers[:, None] + torch.randn((3, 500, 5), generator=source).double()
    for member in range(3):
        for x in points[member]:
            value = family.value(x)[member] + moreau_envelope(x, quantizer, 1.0)
            assert value.item() >= least[member].item() - 1e-12
    torch.testing.assert_close(least_relaxed(family, quantizer, 1e8), on_q, rtol=1e-4, atol=1e-6)


def test_run_ends_in_q_and_the_sum_is_the_relaxed_objective():
    found = envelope_along_a_run(num_weights=8, num_steps=60)
    records = found["records"]
    assert len(records) == 61
    for record in records:
        total = record["loss"] + record["envelope"]
        assert record["relaxed"] == pytest.approx(total, rel=1e-4)
        if record["strength"] is not None:
            expected = record["strength"] / 2 * record["distance"] ** 2
            assert record["envelope"] == pytest.approx(expected, rel=1e-4)
    assert records[-1]["strength"] is None and records[-1]["distance"] == 0
    assert records[found["phase_one"]]["strength"] == pytest.approx(150)


def test_eq_10_with_a_fixed_strength_rests_only_where_the_gradient_of_f_is_zero():
    """It is no solver of eq. 9: at rest, ∇f = 0, and the relaxed objective is above its minimum."""
    found = fixed_strengths(num_members=4, num_starts=5, num_steps=1200)["by_strength"]
    assert found[0]["at_rest"] > 0
    for record in found:
        assert record["critical_of_f"] >= record["at_rest"]
        assert record["relaxed"] > record["least_relaxed"]
    assert found[-1]["at_rest"] == 0


def test_distance_of_the_envelope_is_the_library_s():
    x = torch.tensor([1.0, 0.2, -0.5], dtype=torch.float64)
    assert moreau_envelope(x, Ternary(), 2.0) == distance(x, Ternary()).square()
