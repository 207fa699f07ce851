"""Weights that others write into the model are refused or adopted, never silently thrown away."""

import copy
import pickle

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    Hard,
    ProjectedGradient,
    Ternary,
    select_weights,
)
from tests.optim.sharded import sharded
from tests.optim.toy import PASSING_OVER, loss_of, same_bits, sgd, small_network, train, wrapped
from tests.support.ranks import run_on_ranks

REFUSED = r"^[A-Za-z()]+: the values of 0.weight, 3.weight are not those.*adopt_weights\(\) after$"


def load_others(model: nn.Module) -> None:
    model.load_state_dict(small_network(seed=1).state_dict())


def copies(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def write(model: nn.Module, values: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for p, value in zip(model.parameters(), values, strict=True):
            p.copy_(value)


def trained(num_steps: int = 3, **settings):
    model = small_network()
    optimizer = wrapped(model, **settings)
    train(model, optimizer, num_steps)
    return model, optimizer


@pytest.mark.parametrize("schedule", [{}, {"schedule": Hard()}])
@pytest.mark.parametrize("num_steps", [0, 3])
def test_loaded_weights_are_not_silently_overwritten(num_steps, schedule):
    model, optimizer = trained(num_steps, **schedule)
    load_others(model)
    y = [value.clone() for value in optimizer.float_weights.values()]
    for _ in range(2):  # asking again does not help
        with pytest.raises(ValueError, match=REFUSED) as caught:
            train(model, optimizer, 1)
        assert "\n" not in str(caught.value)
    assert all(map(torch.equal, copies(model), small_network(seed=1).parameters()))
    assert all(map(torch.equal, y, optimizer.float_weights.values()))
    assert optimizer.num_steps == num_steps


@pytest.mark.parametrize("act", PASSING_OVER)
def test_whatever_would_overwrite_or_pass_over_them_refuses(act):
    model, optimizer = trained()
    load_others(model)
    with pytest.raises(ValueError, match=REFUSED):
        act(optimizer)
    assert all(map(torch.equal, copies(model), small_network(seed=1).parameters()))
    assert not optimizer.is_projected


def test_only_the_weights_that_were_replaced_are_named():
    model, optimizer = trained()
    with torch.no_grad():
        model[3].weight[0, 0, 0, 0] += 0.1
        model[6].weight.zero_()  # base's own affair
        model[0].weight.mul_(1)
    with pytest.raises(ValueError, match=r"the values of 3.weight are"):
        train(model, optimizer, 1)


def test_many_weights_are_not_all_listed():
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(9)))
    optimizer = wrapped(model)
    with torch.no_grad():
        for layer in model:
            layer.weight.add_(1)
    with pytest.raises(ValueError, match=r"values of 0.weight, 1.weight, 2.weight and 5 more are"):
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:float weights in half precision")
def test_a_single_weight_of_many_is_noticed(dtype):
    model = nn.Sequential(nn.Linear(400, 400)).to(dtype)
    optimizer = BinaryRelax(sgd(model), select_weights(model, Binary()), Hard())
    with torch.no_grad():
        model[0].weight[7, 7] *= -1
    with pytest.raises(ValueError, match=r"the values of 0.weight are"):
        optimizer.step()


def test_weights_loaded_inside_projected_are_gone_after_it():
    model, optimizer = trained()
    x = copies(model)
    with optimizer.projected(), torch.no_grad():
        for weight in optimizer.quantizers:
            weight.zero_()
        with optimizer.projected():
            pass
    assert all(map(torch.equal, x, copies(model)))
    train(model, optimizer, 1)


def test_models_that_were_converted_after_building_are_refused():
    model, optimizer = trained()
    optimizer.zero_grad()
    model.double()
    with pytest.raises(ValueError, match=r"0.weight, 3.weight changed dtype, device or"):
        optimizer.step()


def test_there_is_no_copy_inside_projected():
    model, optimizer = trained()
    with optimizer.projected():
        with pytest.raises(RuntimeError, match=r"inside projected\(\): leave it first"):
            copy.deepcopy((model, optimizer))
        copy.deepcopy(model)


def test_the_step_that_only_makes_state_does_not_hide_it():
    model = small_network()
    optimizer = wrapped(model, lambda m: sgd(m, lr=0.0))
    load_others(model)
    loss_of(model).backward()
    for p in model.parameters():
        p.grad.zero_()
    optimizer.step()
    assert optimizer.base.state
    assert all(map(torch.equal, copies(model), small_network(seed=1).parameters()))
    with pytest.raises(ValueError, match=REFUSED):
        train(model, optimizer, 1)


def swap_in_and_out(model, optimizer):
    mine = copies(model)
    write(model, copies(small_network(seed=1)))
    write(model, mine)


def load_its_own(model, optimizer):
    model.load_state_dict(copy.deepcopy(model.state_dict()))


def round_a_little(model, optimizer):
    write(model, [p * (1 + 2e-7) for p in copies(model)])


def project_twice(model, optimizer):
    with optimizer.projected(), optimizer.projected():
        for weight in optimizer.quantizers:
            nn.init.ones_(weight)  # put right when it is left


@pytest.mark.parametrize(
    "act", [swap_in_and_out, load_its_own, project_twice, lambda model, optimizer: None]
)
@pytest.mark.parametrize("num_steps", [0, 3, 32])
def test_the_same_values_again_change_nothing(act, num_steps):
    model, optimizer = trained(num_steps)
    plain, reference = trained(num_steps)
    for _ in range(2):
        act(model, optimizer)
        train(model, optimizer, 2)
        train(plain, reference, 2)
    assert same_bits(model, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_of_another_device_is_no_change(dtype):
    model = small_network().to(dtype)
    optimizer = wrapped(model)
    train(model, optimizer, 3)
    round_a_little(model, optimizer)
    train(model, optimizer, 1)


def test_a_checkpoint_may_be_loaded_in_either_order():
    model, optimizer = trained(5)
    state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, 3)
    for model_first in (True, False):
        other = small_network(seed=2)
        resumed = wrapped(other)
        for part in (0, 1) if model_first else (1, 0):
            (other, resumed)[part].load_state_dict(copy.deepcopy(state[part]))
        train(other, resumed, 3)
        assert same_bits(model, other)


def test_adopted_weights_are_those_of_an_optimizer_that_was_built_after_loading():
    model, late = small_network(), small_network(seed=1)
    optimizer, reference = wrapped(model), wrapped(late)
    load_others(model)
    optimizer.adopt_weights()
    assert same_bits(model, late)
    train(model, optimizer, 35)
    train(late, reference, 35)
    assert same_bits(model, late)


def test_weights_that_were_not_replaced_keep_their_y():
    model, optimizer = trained()
    before = [value.clone() for value in optimizer.float_weights.values()]
    x = copies(model)
    optimizer.adopt_weights()
    assert all(map(torch.equal, x, model.parameters()))
    with torch.no_grad():
        model[0].weight.fill_(0.5)
    optimizer.adopt_weights()
    first, second = optimizer.float_weights.values()
    assert bool((first == 0.5).all()) and torch.equal(second, before[1])
    assert optimizer.num_steps == 3


def test_weights_that_are_not_finite_are_not_adopted():
    model, optimizer = trained()
    y = [value.clone() for value in optimizer.float_weights.values()]
    load_others(model)
    with torch.no_grad():
        model[3].weight[0] = torch.nan
    with pytest.raises(ValueError, match=r"3.weight: "):
        optimizer.adopt_weights()
    assert all(map(torch.equal, y, optimizer.float_weights.values()))


def test_nothing_is_adopted_inside_projected():
    _, optimizer = trained()
    with optimizer.projected(), pytest.raises(RuntimeError, match=r"adopt_weights\(\) inside"):
        optimizer.adopt_weights()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_go_on_and_notice_it_too(duplicate):
    model, optimizer = trained()
    twin, theirs = duplicate((model, optimizer))
    train(model, optimizer, 2)
    train(twin, theirs, 2)
    assert same_bits(model, twin)
    other, theirs = duplicate((model, optimizer))
    load_others(other)
    with pytest.raises(ValueError, match=REFUSED):
        train(other, theirs, 1)
    train(model, optimizer, 1)


def test_projected_gradient_starts_from_loaded_weights():
    model = small_network()
    optimizer = ProjectedGradient(sgd(model), select_weights(model, Binary(), ("6",)))
    with torch.no_grad():
        model[0].weight.fill_(7.0)
    train(model, optimizer, 1)
    assert float(model[0].weight.detach().abs().mean()) == pytest.approx(7, rel=0.05)


def replace_sharded():
    from torch.distributed.tensor import distribute_tensor

    model, optimizer = sharded(quantizer=Ternary())
    train(model, optimizer, 2)
    model.load_state_dict(model.state_dict())
    train(model, optimizer, 1)
    weight = model[3].weight
    other = small_network(seed=1)[3].weight.detach()
    with torch.no_grad():
        weight.copy_(distribute_tensor(other, weight.device_mesh, weight.placements))
    with pytest.raises(ValueError, match=r"the values of 3.weight are"):
        train(model, optimizer, 1)
    optimizer.adopt_weights()
    assert torch.equal(optimizer.float_weights[weight].full_tensor(), other)
    train(model, optimizer, 1)


def test_all_processes_notice_it_in_sharded_weights(tmp_path):
    run_on_ranks(replace_sharded, 2, tmp_path)
