"""The optimizer's step through the fused kernels, beside a base that steps by itself.

Without a CUDA device the kernels are interpreted, and weights on the CPU are handed to them.
tests/gpu has what only a device can show: graphs, streams, and that nothing waits.
"""

import copy

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    PerGroup,
    PerLayer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
)
from tests.kernels.lockstep import (
    DEVICE,
    IS_INTERPRETED,
    QUANTIZERS,
    QUIET,
    is_fusible,
)

pytestmark = QUIET
ROUNDING = {"rtol": 1e-5, "atol": 1e-7}
IN_GROUPS = TernaryAbsMean(granularity=PerGroup(32))


@pytest.fixture(autouse=True)
def kernels_run_here(monkeypatch):
    if IS_INTERPRETED:
        monkeypatch.setattr("binaryrelax.optim.fused_weights.has_kernels", is_fusible)
        monkeypatch.setattr("torch.cuda.current_device", lambda: DEVICE.index)


class OwnSGD(torch.optim.SGD):
    """A subclass, which the kernels leave to step by itself."""


class OneScale(PerLayer):
    """A granularity of the user's own, which cannot be hashed."""

    __hash__ = None


class OwnAdamW(torch.optim.AdamW):
    """The same of AdamW."""


def relaxing(kind=torch.optim.SGD, quantizer=TernaryThreshold(), **settings):  # noqa: B008
    torch.manual_seed(0)
    is_grouped = isinstance(quantizer.granularity, PerGroup)
    first, width = (nn.Conv2d(2, 32, 4), 32) if is_grouped else (nn.Conv2d(2, 3, 3), 12)
    model = nn.Sequential(first, nn.Flatten(), nn.Linear(width, 5)).to(DEVICE)
    defaults = {"lr": 0.05, "momentum": 0.9} if issubclass(kind, torch.optim.SGD) else {"lr": 0.01}
    base = kind(model.parameters(), **{**defaults, **settings})
    weights = {model[0].weight: quantizer, model[2].weight: quantizer}
    return model, BinaryRelax(base, weights, GeometricGrowth(1.0, 2.0, 1, 3))


def loss_of(model):
    images = torch.linspace(-1, 1, 96, device=DEVICE).reshape(3, 2, 4, 4)
    return model(images).square().mean()


def train(model, optimizer, num_steps):
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def takes_steps(optimizer):
    """Whether the kernels would take base's next step."""
    return bool(optimizer._weights._fused._possible_descents())


def assert_alike(one, other):
    for a, b in zip(one.float_weights.values(), other.float_weights.values(), strict=True):
        torch.testing.assert_close(a, b, **ROUNDING)
    for p, q in zip(one.state, other.state, strict=True):
        mine, theirs = one.state[p], other.state[q]
        assert mine.keys() == theirs.keys() and mine
        for key in mine:
            torch.testing.assert_close(mine[key], theirs[key], **ROUNDING)


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, IN_GROUPS], ids=repr)
def test_the_kernels_take_the_steps_of_plain_sgd(quantizer):
    model, optimizer = relaxing(quantizer=quantizer)
    other_model, other = relaxing(OwnSGD, quantizer)
    train(model, optimizer, 4)
    train(other_model, other, 4)
    assert takes_steps(optimizer) and not takes_steps(other)
    assert_alike(optimizer, other)
    assert all(weight.grad is not None for weight in optimizer.quantizers)
    for weight, q in optimizer.quantizers.items():  # Phase II has begun: x is in Q
        torch.testing.assert_close(weight.detach(), q.project(weight), **ROUNDING)


@pytest.mark.parametrize("quantizer", [TernaryThreshold(), IN_GROUPS], ids=repr)
def test_the_kernels_take_the_steps_of_plain_adamw(quantizer):
    on_device = {"fused": True}  # AdamW counts its steps there
    model, optimizer = relaxing(torch.optim.AdamW, quantizer, **on_device)
    other_model, other = relaxing(OwnAdamW, quantizer, **on_device)
    train(model, optimizer, 4)
    train(other_model, other, 4)
    assert takes_steps(optimizer) and not takes_steps(other)
    assert_alike(optimizer, other)
    assert all(optimizer.state[weight]["step"].item() == 4 for weight in optimizer.quantizers)


@pytest.mark.parametrize(
    "settings",
    [{"amsgrad": True}, {"maximize": True}, {"betas": (torch.tensor(0.9), torch.tensor(0.99))}],
)
def test_what_the_kernels_do_not_know_of_adamw_is_left_to_it(settings):
    settings = {"foreach": False, **settings}
    model, optimizer = relaxing(torch.optim.AdamW, **settings)
    other_model, other = relaxing(OwnAdamW, **settings)
    train(model, optimizer, 3)
    train(other_model, other, 3)
    loss_of(model).backward()
    assert not takes_steps(optimizer)
    assert_alike(optimizer, other)


def test_adamw_goes_on_from_a_checkpoint_and_with_a_schedule():
    (model, optimizer), (other_model, other) = (
        relaxing(kind, Binary(), fused=True) for kind in (torch.optim.AdamW, OwnAdamW)
    )
    for each, network in ((optimizer, model), (other, other_model)):
        train(network, each, 2)
        each.param_groups[0]["lr"] = 0.003
        each.param_groups[0]["betas"] = (0.8, 0.9)
        each.load_state_dict(copy.deepcopy(each.state_dict()))
        train(network, each, 2)
    assert takes_steps(optimizer)
    assert_alike(optimizer, other)


@pytest.mark.parametrize("kind", [torch.optim.SGD, OwnSGD])
def test_y_moves_in_its_own_memory_and_the_parameters_get_theirs_back(kind):
    model, optimizer = relaxing(kind)
    held = [t.data_ptr() for pair in optimizer.float_weights.items() for t in pair]
    before = [y.clone() for y in optimizer.float_weights.values()]
    train(model, optimizer, 2)
    assert [t.data_ptr() for pair in optimizer.float_weights.items() for t in pair] == held
    assert not any(map(torch.equal, before, optimizer.float_weights.values()))


def test_a_step_that_fails_leaves_everything_and_is_not_taken_later():
    model, optimizer = relaxing(quantizer=Ternary())
    train(model, optimizer, 1)
    loss_of(model).backward()
    assert takes_steps(optimizer)
    x = [weight.detach().clone() for weight in optimizer.quantizers]
    y = [value.clone() for value in optimizer.float_weights.values()]
    gradients = [weight.grad for weight in optimizer.quantizers]
    optimizer.state[model[2].bias]["momentum_buffer"] = torch.zeros(3, device=DEVICE)  # not 5
    with pytest.raises(RuntimeError):
        optimizer.step()
    optimizer.adopt_weights()  # writes x anew
    assert optimizer.num_steps == 1
    for weight, held, gradient in zip(optimizer.quantizers, x, gradients, strict=True):
        torch.testing.assert_close(weight.detach(), held, **ROUNDING)
        assert weight.grad is gradient
    assert all(map(torch.equal, y, optimizer.float_weights.values()))


def test_a_closure_steps_as_backward_before_it_does():
    (model, optimizer), (other_model, other) = relaxing(OwnSGD), relaxing(OwnSGD)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    train(other_model, other, 3)
    assert_alike(optimizer, other)


def test_a_granularity_of_the_users_own_without_a_hash_trains():
    model, optimizer = relaxing(quantizer=Binary(granularity=OneScale()))
    other_model, other = relaxing(quantizer=Binary())
    train(model, optimizer, 3)
    train(other_model, other, 3)
    assert takes_steps(optimizer)
    assert all(map(torch.equal, model.parameters(), other_model.parameters()))
