"""What is not finite is refused by name, and how much is then as it was."""

import math

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD

from binaryrelax import Binary, BinaryRelax, Hard, ProjectedGradient, Ternary, select_weights
from tests.optim.toy import sgd, small_network, train, wrapped


def wrapped_to_stagnate(model):
    return ProjectedGradient(sgd(model), select_weights(model, Ternary(), keep_float=("6",)))


@pytest.mark.parametrize("culprit", [math.nan, math.inf])
@pytest.mark.parametrize("wrapper", [wrapped, wrapped_to_stagnate])
def test_a_refused_gradient_is_named_and_the_next_good_step_is_as_if_it_had_not_come(
    wrapper, culprit
):
    model, other = small_network(), small_network()
    optimizer, undisturbed = wrapper(model), wrapper(other)
    train(model, optimizer, 3)
    train(other, undisturbed, 4)
    model[3].weight.grad[1, 1] = culprit
    with pytest.raises(
        ValueError, match=r"gradients of 3\.weight are NaN or infinite; nothing has"
    ):
        optimizer.step()
    assert optimizer.num_steps == 3
    train(model, optimizer, 1)  # momentum and the float layers are as they were, too
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert all(
        map(torch.equal, optimizer.float_weights.values(), undisturbed.float_weights.values())
    )


def test_non_finite_weights_are_named_and_x_is_untouched():
    model = small_network()
    optimizer = wrapped(model)
    train(model, optimizer, 3)
    x = {w: w.detach().clone() for w in optimizer.quantizers}
    y = {w: v.clone() for w, v in optimizer.float_weights.items()}
    optimizer.param_groups[0]["lr"] = math.inf
    message = r"float weights of 0\.weight, 3\.weight became NaN .* load a checkpoint to go on"
    with pytest.raises(ValueError, match=message):
        optimizer.step()
    assert optimizer.num_steps == 3
    assert all(torch.equal(w, x[w]) for w in x)
    assert all(torch.equal(v, y[w]) for w, v in optimizer.float_weights.items())


def test_a_hook_of_base_may_mend_gradients():
    model = small_network()
    optimizer = wrapped(model)

    def mend(*_):
        for parameter in model.parameters():
            parameter.grad.nan_to_num_()

    optimizer.base.register_step_pre_hook(mend)
    train(model, optimizer, 1)
    model[3].weight.grad[1, 1] = math.nan
    optimizer.step()
    assert optimizer.num_steps == 2


def test_sparse_gradients_are_watched_through_what_they_do():
    model = nn.Embedding(6, 4, sparse=True)
    optimizer = BinaryRelax(SGD(model.parameters(), lr=0.1), {model.weight: Binary()}, Hard())
    model(torch.tensor([1, 2, 1])).sum().backward()
    optimizer.step()
    model.weight.grad._values()[0] = math.nan
    with pytest.raises(ValueError, match="weight 0 of 1 became NaN"):
        optimizer.step()


def test_a_closure_that_leads_to_infinity_is_named():
    model = nn.Sequential(nn.Linear(400, 400))
    weights = select_weights(model, Ternary())
    optimizer = BinaryRelax(LBFGS(model.parameters(), lr=1e30), weights, Hard())

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 400)).square().sum() * 1e20
        loss.backward()
        return loss

    before = model[0].weight.detach().clone()
    with pytest.raises(ValueError, match=r"float weights of 0\.weight became NaN or infinite"):
        for _ in range(3):
            before = model[0].weight.detach().clone()
            optimizer.step(closure)
    assert torch.equal(model[0].weight, before)


def test_non_finite_weights_at_construction_are_named_and_nothing_changes():
    model = small_network()
    with torch.no_grad():
        model[3].weight[0, 0, 0, 0] = math.nan
    first = model[0].weight.detach().clone()
    with pytest.raises(ValueError, match=r"3\.weight: Ternary\(\): 1 of 270 weights"):
        wrapped(model)
    assert torch.equal(model[0].weight, first)
