"""fully_shard (FSDP2): weights that are spread over processes train as on one."""

import math

import pytest
import torch
from torch.optim import AdamW

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    ProjectedGradient,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
    measure,
    monitor,
    select_weights,
)
from binaryrelax.quantizers.sharded_weights import whole
from tests.optim.sharded import equal, shard_network, sharded, snapshot
from tests.optim.toy import SHORT, SHORTER, loss_of, sgd, small_network, train, wrapped
from tests.support.ranks import run_on_ranks

BASES = {"sgd": sgd, "adamw": lambda model: AdamW(model.parameters(), lr=0.01)}
BY_BITS = (Ternary(), Uniform(bits=3), Ternary(granularity=PerChannel()))
ROUNDED = (
    Binary(),
    TernaryThreshold(),
    TernaryAbsMean(),
    OneStepLloyd(bits=3),
    Binary(granularity=PerChannel()),
    TernaryThreshold(granularity=PerGroup(3)),
)


def train_both(base, schedule):
    """Every rank trains the whole network alone and its part of the sharded one, and compares."""
    exact_gradients = math.log2(torch.distributed.get_world_size()).is_integer()
    for quantizer in (*BY_BITS, *ROUNDED):
        model, optimizer = sharded(BASES[base], quantizer, schedule)
        alone = small_network()
        reference = wrapped(alone, BASES[base], quantizer, schedule)
        for _ in range(schedule.harden_at + 3):
            train(model, optimizer, 1)
            train(alone, reference, 1)
        found, expected = snapshot(model, optimizer), snapshot(alone, reference)
        if quantizer in BY_BITS and exact_gradients:
            assert equal(found, expected), quantizer
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
        assert optimizer.phase == 2
        for weight in optimizer.quantizers:
            gathered = found[optimizer.names[weight]]
            assert torch.equal(gathered, quantizer.project(gathered))


@pytest.mark.parametrize(("num_ranks", "base"), [(2, "sgd"), (3, "sgd"), (2, "adamw")])
def test_trains_as_one_process(num_ranks, base, tmp_path):
    soon = GeometricGrowth.reaching(150.0, phase_one_steps=4, every=1)
    run_on_ranks(train_both, num_ranks, tmp_path, base, soon)


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize("base", BASES)
def test_trains_as_one_process_for_longer(num_ranks, base, tmp_path):
    run_on_ranks(train_both, num_ranks, tmp_path, base, SHORT)


def train_replicas(schedule, num_steps):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model, optimizer = sharded(mesh=mesh, schedule=schedule)
    alone = small_network()
    reference = wrapped(alone, schedule=schedule)
    train(model, optimizer, num_steps)
    train(alone, reference, num_steps)
    assert optimizer.phase == 2
    assert equal(snapshot(model, optimizer), snapshot(alone, reference))


def test_replicated_shards_train_as_one_process(tmp_path):
    run_on_ranks(train_replicas, 4, tmp_path, SHORTER, 11)


@pytest.mark.slow
def test_replicated_shards_train_as_one_process_for_longer(tmp_path):
    run_on_ranks(train_replicas, 4, tmp_path, SHORT, 33)


def evaluate_often():
    model, optimizer = sharded()
    alone = small_network()
    reference = wrapped(alone)
    for _ in range(3):
        train(model, optimizer, 1)
        train(alone, reference, 1)
        losses = [evaluate(model, optimizer), evaluate(alone, reference)]
        assert losses[0] == losses[1]
        assert len({loss.item() for loss in losses[0]}) == 2  # x, then its projection, then x
    assert equal(snapshot(model, optimizer), snapshot(alone, reference))


@torch.no_grad()
def evaluate(model, optimizer):
    model.eval()  # batch normalization must not count these batches
    at_x = loss_of(model)
    with optimizer.projected():
        at_projection = loss_of(model)
    again = loss_of(model)
    model.train()
    return [at_x, at_projection, again]


def test_evaluation_sees_the_weights_that_are_meant(tmp_path):
    """fully_shard keeps gathered weights after a forward without backward: they are dropped."""
    run_on_ranks(evaluate_often, 2, tmp_path)


def select_after_a_forward():
    model = shard_network(small_network())
    base = sgd(model)
    with torch.no_grad():
        loss_of(model)  # the model's attributes are the gathered weights now
    optimizer = BinaryRelax(base, select_weights(model, Ternary(), ("6",)), Hard())
    with torch.no_grad():
        loss_of(model)
    assert all(torch.equal(whole(w), Ternary().project(whole(w))) for w in optimizer.quantizers)


def test_weights_are_selected_after_a_forward(tmp_path):
    run_on_ranks(select_after_a_forward, 2, tmp_path)


QUANTIZED = ("0.weight", "3.weight", "y of 0.weight", "y of 3.weight", "steps")


def become_non_finite():
    rank = torch.distributed.get_rank()
    model, optimizer = sharded()
    train(model, optimizer, 3)
    before = snapshot(model, optimizer)
    if rank == 1:
        model[3].weight.grad.to_local()[0, 0] = math.nan
    with pytest.raises(ValueError, match=r"gradients of 3\.weight are NaN or infinite"):
        optimizer.step()
    after = snapshot(model, optimizer)
    assert all(torch.equal(before[name], after[name]) for name in before)
    with torch.no_grad():
        if rank == 0:
            model[0].weight.to_local()[0] = math.inf
    with pytest.raises(ValueError, match=r"0\.weight: Ternary\(\): 18 of 108 weights are NaN"):
        BinaryRelax(sgd(model), select_weights(model, Ternary(), ("6",)), SHORT)


def test_what_is_not_finite_on_one_rank_is_an_error_on_all(tmp_path):
    run_on_ranks(become_non_finite, 2, tmp_path)


def interrupt(*_):
    raise KeyboardInterrupt


def fail_alone():
    model, optimizer = sharded()
    train(model, optimizer, 3)
    before = snapshot(model, optimizer)
    if torch.distributed.get_rank() == 1:
        optimizer.base.register_step_post_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
    else:
        optimizer.refuse_replaced("step")  # as far as a step goes before base's
    torch.distributed.barrier()
    after = snapshot(model, optimizer)
    assert all(torch.equal(before[name], after[name]) for name in QUANTIZED)


def test_a_rank_that_fails_alone_restores_its_shard_alone(tmp_path):
    run_on_ranks(fail_alone, 2, tmp_path)


def measure_both():
    for quantizer in (Ternary(), Binary(granularity=PerChannel())):
        model, optimizer = sharded(quantizer=quantizer)
        alone = small_network()
        reference = wrapped(alone, quantizer=quantizer)
        with monitor(optimizer), monitor(reference):
            for num_steps in (3, 4):
                train(model, optimizer, num_steps)
                train(alone, reference, num_steps)
                found, expected = measure(optimizer), measure(reference)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.name == theirs.name
            numbers = {**vars(ours), "name": 0}, {**vars(theirs), "name": 0}
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-4)
            assert ours.movement > 0 and ours.level_flips is not None
    return found


def test_measure_sees_the_whole_weights(tmp_path):
    records = run_on_ranks(measure_both, 4, tmp_path)  # the last rank holds nothing
    assert records[0] == records[3]


def train_by_projected_gradient():
    model, alone = shard_network(small_network()), small_network()
    optimizer = ProjectedGradient(sgd(model), select_weights(model, Binary(), ("6",)))
    reference = ProjectedGradient(sgd(alone), select_weights(alone, Binary(), ("6",)))
    train(model, optimizer, 3)
    train(alone, reference, 3)
    found, expected = snapshot(model, optimizer), snapshot(alone, reference)
    assert all(torch.allclose(found[name], expected[name], rtol=1e-5) for name in expected)


def test_projected_gradient_too(tmp_path):
    run_on_ranks(train_by_projected_gradient, 2, tmp_path)
