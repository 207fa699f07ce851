"""Saving and going on: bit by bit, from plain data, and only into the same method."""

import copy
import io
import pickle

import pytest
import torch
from torch.optim import LBFGS, SGD, Adam, AdamW

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    ProjectedGradient,
    Ternary,
    select_weights,
)
from tests.optim.toy import loss_of, same_bits, sgd, small_network, train, wrapped

BASES = {
    "sgd": sgd,
    "adamw": lambda model: AdamW(model.parameters(), lr=0.01),
    "amsgrad": lambda model: Adam(model.parameters(), lr=0.01, amsgrad=True),
}
FIFTY = GeometricGrowth.reaching(150.0, phase_one_steps=25, every=2)  # Phase II from step 25


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)  # weights_only=True, torch's safe default


def resume_at_each_of_fifty_cuts(base, num_ahead):
    """Each goes on for so many steps, or to the end, and holds what the uninterrupted run holds."""
    model = small_network()
    optimizer = wrapped(model, base, schedule=FIFTY)
    saved = [_saved(model, optimizer)]
    for _ in range(50):
        train(model, optimizer, 1)
        saved.append(_saved(model, optimizer))
    for cut, state in enumerate(saved[:-1]):
        other = small_network(seed=cut + 1)
        resumed = wrapped(other, base, schedule=FIFTY)
        other.load_state_dict(state["m"])
        resumed.load_state_dict(state["o"])
        assert same_bits(other, _at(state))
        assert resumed.num_steps == cut
        later = min(cut + num_ahead, 50)
        train(other, resumed, later - cut)
        assert same_bits(_at(saved[later]), other), f"cut at step {cut}"
        assert _same_state(saved[later]["o"], resumed.state_dict()), f"cut at step {cut}"


def _saved(model, optimizer):
    return through_a_file({"m": model.state_dict(), "o": optimizer.state_dict()})


def _at(state):
    model = small_network()
    model.load_state_dict(state["m"])
    return model


def _same_state(one, other):
    """Float weights, momenta and all other tensors by their bits, settings by their values."""
    are_alike = one["param_groups"] == other["param_groups"]
    are_alike &= one["state"].keys() == other["state"].keys()
    return are_alike and all(
        values.keys() == other["state"][weight].keys()
        and all(map(torch.equal, values.values(), other["state"][weight].values()))
        for weight, values in one["state"].items()
    )


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_resume_is_bit_exact_at_each_of_fifty_cuts(base):
    resume_at_each_of_fifty_cuts(base, num_ahead=6)  # through three strengths


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_resume_is_bit_exact_at_each_of_fifty_cuts_to_the_end(base):
    resume_at_each_of_fifty_cuts(base, num_ahead=50)


def test_x_is_written_anew_from_y_when_the_model_was_not_restored():
    model, other = small_network(), small_network(seed=5)
    optimizer, resumed = wrapped(model), wrapped(other)
    train(model, optimizer, 7)
    resumed.load_state_dict(optimizer.state_dict())
    for weight, same in zip(optimizer.quantizers, resumed.quantizers, strict=True):
        assert torch.equal(weight, same)
    assert resumed.strength == optimizer.strength


def test_layout_is_flat_plain_data():
    model = small_network()
    optimizer = wrapped(model, BASES["adamw"])
    train(model, optimizer, 2)
    state = optimizer.state_dict()
    assert set(state) == {"state", "param_groups"}
    assert set(state["state"][0]) == {"y", "base.step", "base.exp_avg", "base.exp_avg_sq"}
    assert "y" not in state["state"][1]
    group = state["param_groups"][0]
    assert group["relax_schedule"] == repr(optimizer.schedule)
    assert group["relax_quantizers"][0] == "Ternary()"
    assert group["relax_steps"] == 2
    assert "relax_steps" not in optimizer.param_groups[0]


def test_lbfgs_resumes():
    def closure_of(model, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        return closure

    def base(model):
        return LBFGS(model.parameters(), lr=0.3, max_iter=3)

    model, other = small_network(), small_network(1)
    optimizer, resumed = wrapped(model, base), wrapped(other, base)
    for _ in range(3):
        optimizer.step(closure_of(model, optimizer))
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    optimizer.step(closure_of(model, optimizer))
    resumed.step(closure_of(other, resumed))
    assert same_bits(model, other)


def test_a_scheduler_still_reaches_both_after_loading():
    model = small_network()
    optimizer = wrapped(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train(model, optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups is optimizer.base.param_groups
    scheduler.step()
    assert optimizer.base.param_groups[0]["lr"] == pytest.approx(0.025)


def test_y_keeps_its_memory_format():
    model, other = small_network(), small_network()
    optimizer = wrapped(model)
    resumed = wrapped(other.to(memory_format=torch.channels_last))
    train(model, optimizer, 3)
    resumed.load_state_dict(optimizer.state_dict())
    y = resumed.float_weights[other[3].weight]
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y, optimizer.float_weights[model[3].weight])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda m: wrapped(m, schedule=Hard()), r"saved with schedule Geometric.*this has Hard"),
        (
            lambda m: wrapped(m, quantizer=Binary()),
            r"saved with quantizers \['Ternary\(\)'.*Binary",
        ),
        (
            lambda m: ProjectedGradient(sgd(m), select_weights(m, Ternary(), ("6",))),
            r"saved with method BinaryRelax, this has ProjectedGradient",
        ),
        (
            lambda m: BinaryRelax(
                SGD([{"params": [p]} for p in m.parameters()], lr=0.1),
                select_weights(m, Ternary(), ("6",)),
                FIFTY,
            ),
            r"saved with 1 param groups, this has",
        ),
    ],
)
def test_loading_into_another_method_names_the_difference_and_changes_nothing(other, message):
    state = wrapped(small_network()).state_dict()
    model = small_network(seed=3)
    optimizer = other(model)
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
    assert same_bits(model, before)


def test_another_order_of_parameters_is_refused_not_swapped():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    first, second = model[0].weight, model[1].weight
    weights = select_weights(model, Binary())
    state = BinaryRelax(SGD([first, second], lr=0.1), weights, Hard()).state_dict()
    other = BinaryRelax(SGD([second, first], lr=0.1), weights, Hard())
    with pytest.raises(ValueError, match=r"saved with names \['0.weight', '1.weight'\]"):
        other.load_state_dict(state)


def test_equal_schedules_fit_however_they_are_spelled():
    optimizer = wrapped(small_network(), schedule=GeometricGrowth(1, 1.02, 10, 100))
    state = optimizer.state_dict()
    wrapped(small_network(), schedule=GeometricGrowth(1.0, 1.02, 10, 100)).load_state_dict(state)
    assert state["param_groups"][0]["relax_schedule"].startswith("GeometricGrowth(initial=1.0,")


def test_loading_a_plain_optimizer_state_says_the_way_out():
    model = small_network()
    with pytest.raises(ValueError, match="load it into base before wrapping"):
        wrapped(model).load_state_dict(sgd(model).state_dict())


def test_a_checkpoint_with_nan_is_refused_and_changes_nothing():
    optimizer = wrapped(small_network())
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0]["y"][0] = float("nan")
    state["param_groups"][0]["relax_steps"] = 5
    with pytest.raises(ValueError, match="float weights 0: the checkpoint holds NaN"):
        optimizer.load_state_dict(state)
    assert optimizer.num_steps == 0


@pytest.mark.parametrize("damage", ["missing", "shape"])
def test_damaged_float_weights_are_refused(damage):
    optimizer = wrapped(small_network())
    state = optimizer.state_dict()
    if damage == "missing":
        del state["state"][0]["y"]
    else:
        state["state"][0]["y"] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"float weights 0: saved .*expected \(6, 2, 3, 3\)"):
        optimizer.load_state_dict(state)


def test_model_and_optimizer_copy_and_pickle_together():
    model = small_network()
    optimizer = wrapped(model)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(model, optimizer, 4)
    twins = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    train(model, optimizer, 4)
    for other, twin in twins:
        assert twin.param_groups is twin.base.param_groups
        train(other, twin, 4)
        assert same_bits(model, other)
