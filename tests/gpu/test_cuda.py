"""On a CUDA device: no waiting, graphs, late but certain errors, and the CPU's answers."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    Levels,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    PerLayer,
    PowerOfTwo,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
    measure,
    select_weights,
)
from binaryrelax.optim.device_flags import CALLS_BETWEEN_READS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
QUANTIZERS = [
    Binary(),
    Ternary(),
    TernaryThreshold(),
    TernaryAbsMean(),
    Uniform(bits=3),
    Uniform(bits=4),
    PowerOfTwo(bits=3),
    Levels((1, 3)),
    OneStepLloyd(bits=4),
]
GRANULARITIES = [PerLayer(), PerChannel(), PerGroup(9)]


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, bias=False), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    ).cuda()  # fmt: skip


def problem():
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(32, 3, 16, 16, generator=generator).cuda()
    return images, torch.randint(10, (32,), generator=generator).cuda()


def wrapped(model, quantizer, schedule, **options):
    base = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **options)
    return BinaryRelax(base, select_weights(model, quantizer, keep_float=("8",)), schedule)


def backward(model, images, labels):
    nn.functional.cross_entropy(model(images), labels).backward()


@pytest.fixture
def syncs_are_errors():
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=repr)
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_step_never_waits_for_the_device(quantizer, granularity, syncs_are_errors):
    model = network()
    schedule = GeometricGrowth(1.0, 2.0, 1, 4)  # both phases
    optimizer = wrapped(model, replace(quantizer, granularity=granularity), schedule)
    images, labels = problem()
    backward(model, images, labels)
    torch.cuda.synchronize()
    syncs_are_errors()
    for _ in range(8):
        optimizer.step()
    torch.cuda.set_sync_debug_mode("default")
    assert optimizer.phase == 2


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=repr)
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_projections_are_those_of_the_cpu(quantizer, granularity):
    quantizer = replace(quantizer, granularity=granularity)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        w = torch.randn(64, 9, 3, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
        scale, codes = quantizer.split(w)
        cuda_scale, cuda_codes = quantizer.split(w.cuda())
        assert torch.equal(codes, cuda_codes.cpu())
        torch.testing.assert_close(cuda_scale.cpu(), scale, rtol=1e-2 * scale_bound(dtype), atol=0)
        projected = quantizer.project(w.cuda())
        assert torch.equal(quantizer.project(projected), projected)


def scale_bound(dtype):
    return {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 0.8}[dtype]


@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), TernaryThreshold(), Uniform(bits=4)])
def test_a_captured_step_follows_lambda_without_capturing_again(quantizer):
    schedule = GeometricGrowth.reaching(150.0, phase_one_steps=12, every=2)
    images, labels = problem()
    images = images.double()  # so that rounding, which differs between the two, flips no level
    eager, captured = network().double(), network().double()
    plain, graphed = wrapped(eager, quantizer, schedule), wrapped(captured, quantizer, schedule)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):  # warm up, both alike
            for model, optimizer in ((eager, plain), (captured, graphed)):
                optimizer.zero_grad(set_to_none=False)
                backward(model, images, labels)
                optimizer.step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    graphed.zero_grad(set_to_none=False)
    with torch.cuda.graph(graph, stream=stream):
        graphed.zero_grad(set_to_none=False)
        backward(captured, images, labels)
        graphed.step()
    assert graphed.num_steps == 3  # capturing is not a step
    for _ in range(13):
        graphed.prepare_step()
        graph.replay()
        plain.zero_grad(set_to_none=False)
        backward(eager, images, labels)
        plain.step()
        assert graphed.strength == plain.strength
    assert graphed.phase == 2
    for a, b in zip(plain.float_weights.values(), graphed.float_weights.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)
    for weight, q in graphed.quantizers.items():
        assert torch.equal(weight, q.project(weight))


@pytest.mark.parametrize("read", ["measure", "projected", "state_dict", "steps"])
def test_non_finite_weights_are_named_late_but_never_not(read):
    model = network()
    optimizer = wrapped(model, Ternary(), Hard())
    images, labels = problem()
    backward(model, images, labels)
    model[3].weight.grad[0, 0, 0, 0] = math.nan
    with pytest.raises(ValueError, match=r"float weights of 3\.weight became NaN"):
        optimizer.step()
        if read == "measure":
            measure(optimizer)
        elif read == "projected":
            with optimizer.projected():
                pass
        elif read == "state_dict":
            optimizer.state_dict()
        else:
            for _ in range(2 * CALLS_BETWEEN_READS):  # one to send the flags, one to look at them
                torch.cuda.synchronize()
                optimizer.step()


def test_a_good_checkpoint_ends_the_complaints():
    model = network()
    optimizer = wrapped(model, Ternary(), Hard())
    images, labels = problem()
    backward(model, images, labels)
    good = optimizer.state_dict()
    good = {
        **good,
        "state": {i: {k: v.clone() for k, v in s.items()} for i, s in good["state"].items()},
    }
    model[3].weight.grad.fill_(math.nan)
    with pytest.raises(ValueError, match="became NaN"):
        optimizer.step()
        optimizer.state_dict()
    optimizer.load_state_dict(good)
    optimizer.zero_grad()
    backward(model, images, labels)
    for _ in range(5):
        optimizer.step()
        torch.cuda.synchronize()
    assert len(measure(optimizer)) == 2


def test_weights_that_join_later_are_watched_too():
    model, late = network(), nn.Linear(4, 4, bias=False).cuda()
    optimizer = wrapped(model, Binary(), Hard())
    images, labels = problem()
    backward(model, images, labels)
    optimizer.step()
    optimizer.add_param_group({"params": [late.weight]}, {late.weight: Binary()})
    late.weight.grad = torch.full_like(late.weight, math.nan)
    with pytest.raises(ValueError, match="weight 0 of 1 became NaN"):
        optimizer.step()
        optimizer.state_dict()


def test_memory_stays_after_the_first_step_and_the_peak_is_a_few_layers():
    model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(16)]).cuda()
    optimizer = BinaryRelax(
        torch.optim.SGD(model.parameters(), lr=0.1), select_weights(model, Binary()), Hard()
    )
    model(torch.randn(4, 1024).cuda()).square().sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        optimizer.step()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == held
    one_layer = 1024 * 1024 * 4
    assert torch.cuda.max_memory_allocated() - held <= 6 * one_layer  # of 16 layers


@pytest.mark.parametrize("schedule", [GeometricGrowth(2.0, 1.5, 1, 99), Hard()], ids=repr)
@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), TernaryThreshold(), Uniform(bits=4)])
def test_other_weights_are_noticed_and_the_same_ones_again_pass(quantizer, schedule):
    model, (images, labels) = network(), problem()
    optimizer = wrapped(model, quantizer, schedule)
    for _ in range(3):
        optimizer.zero_grad()
        backward(model, images, labels)
        optimizer.step()
        model.load_state_dict(copy.deepcopy(model.state_dict()))
    optimizer.prepare_step()
    nn.init.ones_(model[0].weight)
    for act in (optimizer.step, optimizer.prepare_step):
        with pytest.raises(ValueError, match=r"the values of 0\.weight are not"):
            act()
    optimizer.adopt_weights()
    assert bool((optimizer.float_weights[model[0].weight] == 1).all())
    optimizer.step()


def test_grad_scaler_skips_a_step():
    model = network()
    optimizer = wrapped(model, Binary(), Hard(), fused=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    images, labels = problem()
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    model[0].weight.grad[0] = math.inf
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.num_steps == 0
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    assert optimizer.num_steps == 1


def test_resume_on_the_device():
    model, other = network(), network(1)
    schedule = GeometricGrowth(1.0, 2.0, 1, 6)
    first, second = wrapped(model, Ternary(), schedule), wrapped(other, Ternary(), schedule)
    images, labels = problem()
    for _ in range(4):
        first.zero_grad()
        backward(model, images, labels)
        first.step()
    other.load_state_dict(model.state_dict())
    second.load_state_dict(first.state_dict())
    for weight, same in zip(first.quantizers, second.quantizers, strict=True):
        assert torch.equal(weight, same)
        assert torch.equal(first.float_weights[weight], second.float_weights[same])
