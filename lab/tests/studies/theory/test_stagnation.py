import torch

from binaryrelax_lab.studies.theory.stagnation import (
    stagnation_on_network,
    stagnation_on_quadratics,
)


def by_method(records, **wanted):
    chosen = [r for r in records if all(r[key] == value for key, value in wanted.items())]
    return {record["method"]: record for record in chosen}


def test_projected_gradient_stagnates_on_quadratics_and_the_others_do_not():
    found = stagnation_on_quadratics(num_members=4, num_weights=32, distance=6.0, rates=(1.0, 0.02))
    for kind in ("binary", "ternary"):
        small = by_method(found["records"], set=kind, rate=0.02)
        assert small["projected gradient"]["changed"] < 0.1
        for method in ("BinaryConnect", "BinaryRelax"):
            assert small[method]["changed"] > 0.5
            assert small[method]["loss"] < 0.7 * small["projected gradient"]["loss"]


def test_projected_gradient_moves_its_scale_all_the_same():
    """It stagnates on its line: the loss falls, the levels stay."""
    found = stagnation_on_quadratics(num_members=2, num_weights=16, distance=6.0, rates=(0.01,))
    record = by_method(found["records"], set="binary")["projected gradient"]
    assert record["loss"] < 1


def test_small_steps_change_weights_of_the_network_only_with_a_float_memory():
    before = torch.get_rng_state()
    found = stagnation_on_network(num_steps=6, float_steps=8, rates=(0.03,))
    assert torch.equal(torch.get_rng_state(), before)
    records = by_method(found["records"])
    assert records["projected gradient"]["num_changed"] == 0
    assert records["BinaryConnect"]["num_changed"] > 100
    assert records["BinaryRelax"]["num_changed"] > 100
    assert records["BinaryConnect"]["weights"] == 9 * (16 + 16 * 32 + 32 * 64 + 64 * 128)
    first = {record["first_loss"] for record in found["records"][:2]}
    assert len(first) == 1  # both hard methods begin at the same point
