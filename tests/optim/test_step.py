"""What one step promises, with every kind of base optimizer and model."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    LinearMix,
    PerChannel,
    PerGroup,
    Schedule,
    Ternary,
    relax,
    select_weights,
)
from tests.optim.toy import IMAGES, SHORT, loss_of, sgd, small_network, train, wrapped


def test_the_model_holds_x_from_construction_on():
    model, before = small_network(), small_network()
    optimizer = wrapped(model)
    assert (optimizer.strength, optimizer.phase) == (1.0, 1)
    for weight, quantizer in optimizer.quantizers.items():
        y = before.get_parameter(optimizer.names[weight]).detach()
        assert torch.equal(optimizer.float_weights[weight], y)
        assert torch.equal(weight, relax(y, quantizer.project(y), 1.0))


def test_strength_is_the_lambda_that_wrote_x():
    model = small_network()
    optimizer = wrapped(model, schedule=GeometricGrowth(1.0, 2.0, 1, 3))
    seen = [optimizer.strength]
    for _ in range(4):
        train(model, optimizer, 1)
        seen.append(optimizer.strength)
    assert seen == [1.0, 1.0, 2.0, 4.0, math.inf]
    assert optimizer.phase == 2


def test_float_layers_follow_the_base_optimizer_alone():
    model = small_network()
    optimizer = wrapped(model)
    assert model[6].weight not in optimizer.float_weights
    assert model[1].weight not in optimizer.float_weights
    assert len(optimizer.float_weights) == 2


def test_closure_is_evaluated_at_x_also_when_called_often():
    model = small_network()
    base = LBFGS(model.parameters(), lr=0.5, max_iter=4)
    weights = select_weights(model, Ternary(), keep_float=("6",))
    optimizer = BinaryRelax(base, weights, Hard())
    num_calls = 0

    def closure():
        nonlocal num_calls
        num_calls += 1
        assert all(len(w.unique()) <= 3 for w in weights)  # x lies in Q, y would not
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    before = [y.clone() for y in optimizer.float_weights.values()]
    first = optimizer.step(closure)
    for _ in range(5):
        last = optimizer.step(closure)
    assert num_calls > 6
    assert last < first
    assert not any(map(torch.equal, before, optimizer.float_weights.values()))
    assert all(torch.equal(w, q.project(w)) for w, q in weights.items())


def test_a_closure_gives_the_same_step_as_backward_before_it():
    one, two = small_network(), small_network()
    plain, closed = wrapped(one), wrapped(two)

    def closure():
        closed.zero_grad()
        loss = loss_of(two)
        loss.backward()
        return loss

    for _ in range(10):
        train(one, plain, 1)
        closed.step(closure)
        assert all(map(torch.equal, one.parameters(), two.parameters()))


def test_several_groups_and_a_scheduler_on_the_wrapper():
    model, plain = small_network(), small_network()

    def base(m):
        convolutions = [m[0].weight, *m[3].parameters()]
        others = [*m[1].parameters(), *m[6].parameters()]
        return AdamW([{"params": convolutions, "lr": 0.02}, {"params": others}], lr=0.01)

    optimizer = wrapped(model, base, schedule=LinearMix(10**6, 10**6 + 1))
    reference = base(plain)
    assert optimizer.param_groups is optimizer.base.param_groups
    ours, theirs = CosineAnnealingLR(optimizer, 10), CosineAnnealingLR(reference, 10)
    for _ in range(10):
        train(model, optimizer, 1)
        train(plain, reference, 1)
        ours.step()
        theirs.step()
    assert optimizer.base.param_groups[0]["lr"] == reference.param_groups[0]["lr"] != 0.02
    assert all(map(torch.equal, model.parameters(), plain.parameters()))


def test_one_cycle_finds_the_momentum_of_the_base():
    optimizer = wrapped(small_network())
    OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    assert optimizer.base.param_groups[0]["momentum"] == pytest.approx(0.95)


def test_weights_without_gradient_and_frozen_layers_still_follow_lambda():
    model = small_network()
    model[3].weight.requires_grad_(False)
    optimizer = wrapped(model, schedule=SHORT)
    y = optimizer.float_weights[model[3].weight].clone()
    train(model, optimizer, 31)
    assert torch.equal(optimizer.float_weights[model[3].weight], y)
    assert torch.equal(model[3].weight, Ternary().project(y))


def test_a_tied_weight_has_one_y():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    optimizer = BinaryRelax(sgd(model), select_weights(model, Binary()), Hard())
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    assert len(optimizer.float_weights) == 1
    assert model[0].weight is model[1].weight
    assert len(model[0].weight.detach().abs().unique()) == 1


def test_add_param_group_reaches_both_and_can_quantize():
    model, late = small_network(), nn.Linear(4, 4, bias=False)
    optimizer = wrapped(model, schedule=Hard())
    optimizer.add_param_group({"params": [late.weight], "lr": 0.5}, {late.weight: Binary()})
    assert optimizer.param_groups is optimizer.base.param_groups
    assert optimizer.base.param_groups[1]["lr"] == 0.5
    assert torch.equal(late.weight, Binary().project(late.weight))
    optimizer.zero_grad()
    late(model(IMAGES)).square().mean().backward()
    y = optimizer.float_weights[late.weight].clone()
    optimizer.step()
    assert not torch.equal(y, optimizer.float_weights[late.weight])


def test_add_param_group_leaves_quantized_weights_alone():
    model = small_network()
    first, second = model[0].weight, model[3].weight
    optimizer = BinaryRelax(SGD([first], lr=0.1), {first: Ternary()}, Hard())
    y = optimizer.float_weights[first].clone()
    optimizer.add_param_group(
        {"params": [second]}, select_weights(model, Ternary(), keep_float=("6",))
    )
    assert torch.equal(optimizer.float_weights[first], y)
    assert set(optimizer.float_weights) == {first, second}
    with optimizer.projected(), pytest.raises(RuntimeError, match=r"add_param_group\(\) inside"):
        optimizer.add_param_group({"params": [model[6].weight]}, {model[6].weight: Binary()})


def test_add_param_group_that_fails_adds_nothing():
    optimizer = wrapped(small_network())
    weight = nn.Parameter(torch.randn(3, 5))
    with pytest.raises(ValueError, match=r"weight 0 of 1: PerGroup\(size=2\) does not divide"):
        optimizer.add_param_group({"params": [weight]}, {weight: Binary(granularity=PerGroup(2))})
    assert len(optimizer.param_groups) == 1
    with pytest.raises(ValueError, match="need parameter: quantizer"):
        optimizer.add_param_group({"params": [weight]}, {weight: "binary"})
    assert len(optimizer.param_groups) == 1


def test_a_step_skipped_by_grad_scaler_advances_nothing():
    model = small_network()
    optimizer = wrapped(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    train(model, optimizer, 2)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    optimizer.zero_grad()
    scaler.scale(loss_of(model)).backward()
    model[0].weight.grad[0] = math.inf
    running = {k: v for k, v in model.state_dict().items() if "running" in k or "num_b" in k}
    scaler.step(optimizer)
    scaler.update()
    after = model.state_dict()
    assert all(torch.equal(v, after[k]) for k, v in before[0].items() if k not in running)
    assert optimizer.num_steps == 2
    optimizer.zero_grad()
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)
    assert optimizer.num_steps == 3


def test_a_compiled_model_trains_to_the_same_weights():
    model, plain = small_network(), small_network()
    compiled = torch.compile(model, backend="aot_eager")
    ours = BinaryRelax(sgd(compiled), select_weights(compiled, Ternary(), ("6",)), SHORT)
    theirs = wrapped(plain)
    assert sorted(ours.names.values()) == sorted(theirs.names.values())
    train(compiled, ours, 5)
    train(plain, theirs, 5)
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("quantizer", [Ternary(), Ternary(granularity=PerChannel())], ids=repr)
def test_channels_last_gives_the_same_projection(quantizer):
    model, plain = small_network(), small_network()
    model = model.to(memory_format=torch.channels_last)
    ours, theirs = wrapped(model, quantizer=quantizer), wrapped(plain, quantizer=quantizer)
    assert all(map(torch.equal, model.parameters(), plain.parameters()))
    train(model, ours, 35)
    for weight, quantizer in ours.quantizers.items():
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(weight, quantizer.project(weight.contiguous()))
    assert theirs.phase == 1


def test_bfloat16_parameters_warn_once_and_keep_their_dtype():
    model = small_network().bfloat16()
    with pytest.warns(UserWarning, match=r"half precision.*0.weight, 3.weight") as caught:
        optimizer = wrapped(model, schedule=Hard())
    assert len(caught) == 1
    train(model, optimizer, 2)
    assert all(y.dtype == torch.bfloat16 for y in optimizer.float_weights.values())
    assert all(torch.equal(w, q.project(w)) for w, q in optimizer.quantizers.items())


def test_autocast_trains_float32_parameters():
    model = small_network()
    optimizer = wrapped(model)
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(model)
    loss.backward()
    optimizer.step()
    assert model[0].weight.dtype == torch.float32


def test_an_exception_in_the_closure_leaves_x_and_y():
    model = small_network()
    optimizer = wrapped(model)
    train(model, optimizer, 3)
    before = [p.detach().clone() for p in model.parameters()]
    y = [v.clone() for v in optimizer.float_weights.values()]

    def closure():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert all(map(torch.equal, before, model.parameters()))
    assert all(map(torch.equal, y, optimizer.float_weights.values()))


def test_the_default_device_does_not_matter():
    w = torch.randn(200_000)
    expected = Ternary().project(w), relax(w, w, 1.0)
    with torch.device("meta"):
        assert torch.equal(Ternary().project(w), expected[0])
        assert torch.equal(relax(w, w, 1.0), expected[1])


class Nowhere(Schedule):
    def __call__(self, step):
        return -1.0


class Falling(Schedule):
    def __call__(self, step):
        return 1.0 if step < 2 else -1.0


def test_a_lambda_that_is_none_is_refused_before_anything_moves():
    model = small_network()
    optimizer = wrapped(model, schedule=Falling())
    train(model, optimizer, 2)
    held = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    for act in (optimizer.step, optimizer.prepare_step):
        with pytest.raises(ValueError, match=r"Falling.* gave the strength -1"):
            act()
    now = (model.state_dict(), optimizer.state_dict()["state"])
    torch.testing.assert_close(now, held, rtol=0, atol=0)
    assert optimizer.num_steps == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m, b, w: BinaryRelax("sgd", w, Hard()), r"BinaryRelax\(base=str\)"),
        (lambda m, b, w: BinaryRelax(b, w, 1.02), r"schedule=1.02.*need a Schedule"),
        (lambda m, b, w: BinaryRelax(b, {}, Hard()), r"weights=\{\}"),
        (lambda m, b, w: BinaryRelax(b, [1], Hard()), r"weights=\[1\]"),
        (lambda m, b, w: BinaryRelax(b, {m[0].weight: 2}, Hard()), r"Parameter: 2"),
        (lambda m, b, w: BinaryRelax(b, w, Nowhere()), r"gave the strength -1"),
        (lambda m, b, w: BinaryRelax(BinaryRelax(b, w, Hard()), w, Hard()), r"base=BinaryRelax"),
        (
            lambda m, b, w: BinaryRelax(SGD([m[0].weight], lr=0.1), w, Hard()),
            r"3\.weight of shape \(5, 6, 3, 3\) is not held by SGD",
        ),
    ],
)
def test_wrong_arguments_are_named(build, message):
    model = small_network()
    weights = select_weights(model, Binary(), keep_float=("6",))
    with pytest.raises(ValueError, match=message):
        build(model, sgd(model), weights)


def test_parameters_that_were_exchanged_in_base_are_noticed_at_the_first_step():
    """As accelerate does when it shards: base would train others than those that are relaxed."""
    model = small_network(0)
    optimizer = BinaryRelax(sgd(model), select_weights(model, Ternary()), SHORT)
    for group in optimizer.param_groups:
        group["params"] = [nn.Parameter(p.detach().clone()) for p in group["params"]]
    with pytest.raises(ValueError, match=r"exchanged 0\.weight.* in SGD.*then build the optimizer"):
        optimizer.step()
