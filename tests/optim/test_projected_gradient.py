import copy

import pytest
import torch
from torch import nn
from torch.optim import SGD

from binaryrelax import (
    Binary,
    BinaryRelax,
    Hard,
    ProjectedGradient,
    Ternary,
    measure,
    select_weights,
)
from tests.optim.toy import small_network, train


def codes(optimizer):
    return [w.detach().sign() for w in optimizer.quantizers]


def test_one_step_is_eq_2():
    model, plain = small_network(), small_network()
    optimizer = ProjectedGradient(
        SGD(model.parameters(), lr=0.5), select_weights(model, Ternary(), ("6",))
    )
    plain.load_state_dict(model.state_dict())
    train(model, optimizer, 1)
    train(plain, SGD(plain.parameters(), lr=0.5), 1)
    assert torch.equal(model[3].weight, Ternary().project(plain[3].weight))


def test_small_learning_rates_stagnate_where_binary_connect_moves_on():
    moved = {}
    for method in (ProjectedGradient, lambda b, w: BinaryRelax(b, w, Hard())):
        model = small_network()
        base = SGD(model.parameters(), lr=0.003)
        optimizer = method(base, select_weights(model, Binary(), ("6",)))
        before = codes(optimizer)
        train(model, optimizer, 150)
        pairs = zip(before, codes(optimizer), strict=True)
        moved[type(optimizer).__name__] = sum(int((a != b).sum()) for a, b in pairs)
    assert moved["ProjectedGradient"] == 0
    assert moved["BinaryRelax"] > 10


def loaded():
    model = small_network()
    weights = select_weights(model, Binary(), ("6",))
    optimizer = ProjectedGradient(SGD(model.parameters(), lr=0.1), weights)
    with torch.no_grad():
        model[0].weight.fill_(7.0)
    return model, optimizer


@pytest.mark.parametrize(
    "act",
    [
        measure,
        lambda optimizer: optimizer.projected().__enter__(),
        lambda optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]}),
    ],
)
def test_loaded_weights_are_not_passed_over_outside_the_step(act):
    model, optimizer = loaded()
    with pytest.raises(ValueError, match=r"the values of 0.weight are not .*adopt_weights\(\)"):
        act(optimizer)
    assert bool((model[0].weight == 7).all())
    optimizer.adopt_weights()
    act(optimizer)
    assert bool((model[0].weight == 7).all())


def test_a_step_that_fails_leaves_loaded_weights():
    model, optimizer = loaded()

    def fail(*_):
        raise KeyboardInterrupt

    optimizer.base.register_step_post_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        train(model, optimizer, 1)
    assert bool((model[0].weight == 7).all())


def test_converted_models_are_refused():
    model, optimizer = loaded()
    model.double()
    optimizer.zero_grad()
    with pytest.raises(ValueError, match=r"ProjectedGradient: 0.weight, 3.weight changed dtype"):
        optimizer.step()


def test_a_copy_still_starts_at_x():
    model, optimizer = loaded()
    model, optimizer = copy.deepcopy((model, optimizer))
    train(model, optimizer, 1)  # weights of somebody else are where the step starts
    y = optimizer.float_weights[model[0].weight]
    assert bool((y > 5).all())
