"""Steps of SGD and AdamW inside the kernels, beside a base that steps by itself."""

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    PerChannel,
    PerGroup,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    select_weights,
)
from tests.gpu.test_cuda import network
from tests.kernels.lockstep import PER_LAYER

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings(
        "ignore:Synchronization debug mode is a prototype",
        "ignore:This instance was constructed with capturable=True",
    ),
]
PER_GROUP = TernaryAbsMean(granularity=PerGroup(32))
QUANTIZERS = [*PER_LAYER, Ternary(granularity=PerChannel())]
ROUNDING = {"rtol": 1e-4, "atol": 1e-6}


class OwnSGD(torch.optim.SGD):
    """A subclass, which the kernels leave to step by itself."""


class OwnAdamW(torch.optim.AdamW):
    """The same of AdamW."""


def relaxing(kind=torch.optim.SGD, quantizer=TernaryThreshold(), **settings):  # noqa: B008
    model = network()
    if issubclass(kind, torch.optim.SGD):
        settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3, **settings}
    else:
        settings = {"lr": 0.003, "fused": True, **settings}  # it counts its steps on the device
    base = kind(model.parameters(), **settings)
    keep_float = ("0", "8") if isinstance(quantizer.granularity, PerGroup) else ("8",)
    weights = select_weights(model, quantizer, keep_float=keep_float)
    return model, BinaryRelax(base, weights, GeometricGrowth(1.0, 1.5, 1, 30))


def give_gradients(model, seed, *, in_place=False):
    """The same for every model; in new memory unless they are to stay where they are."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        gradient = torch.randn_like(parameter) * 0.01
        if in_place and parameter.grad is not None:
            parameter.grad.copy_(gradient)
        else:
            parameter.grad = gradient


def step_all(*pairs, seed):
    """Every optimizer takes a step, with the same gradients."""
    for model, optimizer in pairs:
        give_gradients(model, seed)
        optimizer.step()


def takes_steps(optimizer):
    """Whether the kernels would take base's next step."""
    return bool(optimizer._weights._fused._possible_descents())


def assert_alike(one, other):
    for a, b in zip(one.float_weights.values(), other.float_weights.values(), strict=True):
        torch.testing.assert_close(a, b, **ROUNDING)
    for a, b in zip(one.param_groups, other.param_groups, strict=True):
        for p, q in zip(a["params"], b["params"], strict=True):
            mine, theirs = one.state[p], other.state[q]
            assert mine.keys() == theirs.keys()
            for key in mine:
                if mine[key] is not None:
                    torch.testing.assert_close(mine[key], theirs[key], **ROUNDING)


@pytest.mark.parametrize("kinds", [(torch.optim.SGD, OwnSGD), (torch.optim.AdamW, OwnAdamW)])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_many_steps_beside_a_base_that_steps_itself(quantizer, kinds):
    model, optimizer = relaxing(kinds[0], quantizer)
    other_model, other = relaxing(kinds[1], quantizer)
    for seed in range(50):
        step_all((model, optimizer), (other_model, other), seed=seed)
        assert takes_steps(optimizer)
        assert not takes_steps(other)
    assert_alike(optimizer, other)
    for weight in optimizer.quantizers:  # Phase II has begun: x is in Q
        assert weight.grad is not None
        values = weight.detach().abs().unique()
        assert isinstance(quantizer.granularity, PerChannel) or len(values) <= 2


@pytest.mark.parametrize(
    "settings",
    [{"momentum": 0.0}, {"nesterov": True}, {"dampening": 0.2}, {"fused": True}, {"foreach": True}],
    ids=repr,
)
def test_settings(settings):
    (model, optimizer), (other_model, other) = relaxing(**settings), relaxing(OwnSGD, **settings)
    for seed in range(10):
        for each in (optimizer, other):
            each.param_groups[0]["lr"] = 0.1 / (1 + seed)  # a schedule of plain numbers
        step_all((model, optimizer), (other_model, other), seed=seed)
    assert takes_steps(optimizer)
    assert_alike(optimizer, other)


@pytest.mark.parametrize(
    "settings",
    [{"capturable": True, "fused": None}, {"betas": (0.9, 0.95), "weight_decay": 0.1}],
    ids=repr,
)
def test_settings_of_adamw(settings):
    (model, optimizer), (other_model, other) = (
        relaxing(kind, PER_GROUP, **settings) for kind in (torch.optim.AdamW, OwnAdamW)
    )
    for seed in range(10):
        for each in (optimizer, other):
            each.param_groups[0]["lr"] = 0.01 / (1 + seed)
        step_all((model, optimizer), (other_model, other), seed=seed)
    assert takes_steps(optimizer)
    assert_alike(optimizer, other)


@pytest.mark.parametrize("settings", [{"fused": None}, {"amsgrad": True}], ids=repr)
def test_base_steps_where_the_kernels_do_not_know_adamw(settings):
    """By default it counts its steps on the host, where a kernel cannot read them."""
    model, optimizer = relaxing(torch.optim.AdamW, **settings)
    other_model, other = relaxing(OwnAdamW, **settings)
    for seed in range(3):
        step_all((model, optimizer), (other_model, other), seed=seed)
    assert not takes_steps(optimizer)
    assert_alike(optimizer, other)


def test_groups_have_their_own_settings():
    def two_groups(kind):
        model = network()
        first, *rest = model.parameters()
        groups = [{"params": [first], "lr": 0.5}, {"params": rest, "momentum": 0.0}]
        base = kind(groups, lr=0.05, momentum=0.9)
        weights = select_weights(model, Binary(), keep_float=("8",))
        return model, BinaryRelax(base, weights, GeometricGrowth(1.0, 1.5, 1, 30))

    (model, optimizer), (other_model, other) = two_groups(torch.optim.SGD), two_groups(OwnSGD)
    for seed in range(5):
        step_all((model, optimizer), (other_model, other), seed=seed)
    assert takes_steps(optimizer)
    assert_alike(optimizer, other)


def test_base_steps_where_the_kernels_cannot():
    model, optimizer = relaxing(maximize=True)
    give_gradients(model, 0)
    optimizer.step()
    assert not takes_steps(optimizer)
    model, optimizer = relaxing()
    give_gradients(model, 0)
    assert not takes_steps(optimizer)  # no velocities yet
    optimizer.step()
    assert takes_steps(optimizer)
    model[0].weight.grad = None
    assert not takes_steps(optimizer)
    before = [y.clone() for y in optimizer.float_weights.values()]
    optimizer.step()  # the weight without a gradient stays
    after = list(optimizer.float_weights.values())
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
    handle = optimizer.base.register_step_pre_hook(lambda *_: None)
    give_gradients(model, 1)
    assert not takes_steps(optimizer)  # the hook may look at gradients
    handle.remove()
    assert takes_steps(optimizer)


@pytest.mark.parametrize("kinds", [(torch.optim.SGD, OwnSGD), (torch.optim.AdamW, OwnAdamW)])
def test_graphs_read_the_learning_rate_and_their_own_gradients(kinds):
    """Two graphs with gradients in different places, replayed in turns, beside eager steps."""
    lr, other_lr = (torch.full((), 0.05, device="cuda") for _ in range(2))
    settings = {"fused": True, **({"capturable": True} if kinds[1] is OwnAdamW else {})}
    model, optimizer = relaxing(kinds[0], Ternary(), lr=lr, **settings)
    other_model, other = relaxing(kinds[1], Ternary(), lr=other_lr, **settings)
    for seed in range(3):
        step_all((model, optimizer), (other_model, other), seed=seed)
    graphs, stream = [], torch.cuda.Stream()
    for _ in range(2):
        gradients = [torch.zeros_like(p) for p in model.parameters()]
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        with torch.cuda.graph(graph, stream=stream):
            optimizer.step()
        graphs.append((graph, gradients))
    for seed in range(3, 15):
        lr.fill_(0.1 / seed)
        other_lr.fill_(0.1 / seed)
        graph, gradients = graphs[seed % 2]
        give_gradients(other_model, seed)
        for gradient, parameter in zip(gradients, other_model.parameters(), strict=True):
            gradient.copy_(parameter.grad)
        optimizer.prepare_step()
        graph.replay()
        other.step()
    torch.cuda.synchronize()
    assert_alike(optimizer, other)


def test_a_step_that_fails_leaves_gradients_and_weights():
    model, optimizer = relaxing()
    give_gradients(model, 0)
    optimizer.step()
    give_gradients(model, 1)
    bias = model[8].bias
    relaxed = [w.detach().clone() for w in optimizer.quantizers]
    kept = [y.clone() for y in optimizer.float_weights.values()]
    optimizer.state[bias]["momentum_buffer"] = torch.zeros(3, device="cuda")  # of a wrong shape
    with pytest.raises(RuntimeError):
        optimizer.step()
    assert all(w.grad is not None for w in optimizer.quantizers)
    assert all(torch.equal(w, x) for w, x in zip(optimizer.quantizers, relaxed, strict=True))
    assert all(
        torch.equal(y, k) for y, k in zip(optimizer.float_weights.values(), kept, strict=True)
    )


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_nothing_waits_for_the_device(kind):
    """In this mode of torch's, to wait is an error."""
    model, optimizer = relaxing(kind, fused=True)
    for seed in range(12):
        if seed == 2:
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
        try:
            give_gradients(model, seed)
            optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_mixed_precision_of_weights():
    """A weight in bfloat16 is moved by base, the others by the kernels."""
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)).cuda()
    model[1].to(torch.bfloat16)
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    with pytest.warns(UserWarning):
        optimizer = BinaryRelax(base, select_weights(model, Binary()), GeometricGrowth(1, 2, 1, 9))
    before = [y.clone() for y in optimizer.float_weights.values()]
    for seed in range(3):
        give_gradients(model, seed)
        optimizer.step()
    assert takes_steps(optimizer)
    for old, new in zip(before, optimizer.float_weights.values(), strict=True):
        assert not torch.equal(old, new)


def captured_step(model, optimizer):
    """A graph of one step, with gradients of its own, that was not replayed yet."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        optimizer.step()
    return graph


def test_eager_steps_around_graphs():
    """Plain numbers as learning rates: each graph keeps its own, eager steps have theirs."""
    (model, optimizer), (other_model, other) = relaxing(fused=True), relaxing(OwnSGD, fused=True)

    def both_step(seed, lr, graph=None):
        give_gradients(model, seed, in_place=True)
        give_gradients(other_model, seed)
        for each in (optimizer, other):
            each.param_groups[0]["lr"] = lr
        other.step()
        if graph is None:
            optimizer.step()
        else:
            optimizer.prepare_step()
            graph.replay()

    for seed in range(3):
        both_step(seed, 0.1)
    optimizer.param_groups[0]["lr"] = 0.001
    graph = captured_step(model, optimizer)
    both_step(3, 0.1)  # with the gradients of the graph, before it has run
    both_step(4, 0.001, graph)
    both_step(5, 0.1)
    both_step(6, 0.001, graph)
    for seed in range(7, 50):  # gradients wander: what the graph reads must stay
        model.zero_grad()
        both_step(seed, 0.1)
    torch.cuda.synchronize()
    assert_alike(optimizer, other)


def test_gradients_in_one_buffer():
    (model, optimizer), (other_model, other) = relaxing(), relaxing(OwnSGD)
    for seed in range(5):
        give_gradients(other_model, seed)
        give_gradients(model, seed)
        flat = torch.cat(
            [torch.zeros(2, device="cuda")] + [p.grad.ravel() for p in model.parameters()]
        )
        parts = flat[2:].split([p.numel() for p in model.parameters()])
        for parameter, part in zip(model.parameters(), parts, strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
        other.step()
    assert takes_steps(optimizer)
    assert_alike(optimizer, other)


def test_state_that_was_dropped_is_made_anew():
    (model, optimizer), (other_model, other) = relaxing(), relaxing(OwnSGD)
    for seed in range(6):
        if seed == 3:
            optimizer.state.pop(model[3].weight)
            other.state.pop(other_model[3].weight)
        step_all((model, optimizer), (other_model, other), seed=seed)
    assert_alike(optimizer, other)


def test_hooks_of_all_optimizers_see_the_gradients():
    model, optimizer = relaxing()
    for seed in range(2):
        give_gradients(model, seed)
        optimizer.step()
    seen = []
    handle = register_optimizer_step_pre_hook(
        lambda each, *_: seen.append(model[0].weight.grad is not None)
    )
    give_gradients(model, 2)
    optimizer.step()
    handle.remove()
    assert seen == [True, True]
