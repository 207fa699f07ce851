"""Weights written through ``.data``, where torch does not count: refused, adopted, never lost."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim import LBFGS, SGD

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    LinearMix,
    ProjectedGradient,
    Ternary,
    select_weights,
)
from tests.optim.sharded import sharded
from tests.optim.toy import (
    IMAGES,
    LABELS,
    PASSING_OVER,
    loss_of,
    same_bits,
    sgd,
    small_network,
    train,
    wrapped,
)
from tests.support.ranks import run_on_ranks

REFUSED = r"the values of (0.weight, )?3.weight are not those.*adopt_weights\(\) after$"


def trained(num_steps=3, model=None, **settings):
    model = model or small_network()
    optimizer = wrapped(model, **settings)
    train(model, optimizer, num_steps)
    return model, optimizer


def load_a_vector(model):
    others = parameters_to_vector(small_network(seed=1).parameters())
    vector_to_parameters(others, model.parameters())


def copy_others(model):
    model[3].weight.data.copy_(small_network(seed=1)[3].weight)


def exchange_the_memory(model):
    model[3].weight.data = small_network(seed=1)[3].weight.data


def zero_a_channel(model):
    model[3].weight.data[0].zero_()


def permute_the_channels(model):
    model[3].weight.data.copy_(model[3].weight.data.flip(0))


def swap_a_rectangle(model):
    """In Phase II of Binary, equal row and column sums do not mean equal weights."""
    rows = model[3].weight.data.view(5, -1)
    rows[:2, :2] = rows[:2, :2].flip(1)


def change_the_last_bits(model):
    bits = model[3].weight.data.view(torch.int32)
    bits[4, 5, 2, 2] += 1 << 10


WRITES = [
    load_a_vector,
    copy_others,
    exchange_the_memory,
    zero_a_channel,
    permute_the_channels,
    change_the_last_bits,
]


@pytest.mark.parametrize("num_steps", [0, 3])
@pytest.mark.parametrize("write", WRITES)
def test_weights_written_through_data_are_not_silently_thrown_away(write, num_steps):
    model, optimizer = trained(num_steps)
    y = [value.clone() for value in optimizer.float_weights.values()]
    write(model)
    written = [p.detach().clone() for p in model.parameters()]
    for _ in range(2):  # asking again does not help
        with pytest.raises(ValueError, match=REFUSED):
            train(model, optimizer, 1)
    assert all(map(torch.equal, written, model.parameters()))
    assert all(map(torch.equal, y, optimizer.float_weights.values()))
    optimizer.adopt_weights()
    assert torch.equal(optimizer.float_weights[model[3].weight], written[3])
    train(model, optimizer, 1)


@pytest.mark.parametrize("act", PASSING_OVER)
def test_whatever_would_pass_over_data_writes_refuses(act):
    model, optimizer = trained()
    copy_others(model)
    with pytest.raises(ValueError, match=REFUSED):
        act(optimizer)
    assert torch.equal(model[3].weight, small_network(seed=1)[3].weight)


def test_equal_sums_do_not_hide_a_permutation():
    model = small_network()
    weights = select_weights(model, Binary(), keep_float=("6",))
    optimizer = BinaryRelax(sgd(model), weights, Hard())
    rows = optimizer.float_weights[model[3].weight].view(5, -1)
    rows[:2, :2] = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    train(model, optimizer, 1)
    swap_a_rectangle(model)
    with pytest.raises(ValueError, match=REFUSED):
        train(model, optimizer, 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:float weights in half precision")
def test_every_dtype_is_compared(dtype):
    weight = nn.Parameter(torch.randn(8, 9).to(dtype))
    optimizer = BinaryRelax(SGD([weight], lr=0.1), {weight: Ternary()}, Hard())
    optimizer.step()
    weight.data[7, 8] += 1
    with pytest.raises(ValueError, match="values of weight 0 of 1 are"):
        optimizer.step()


def channels_last():
    return small_network().to(memory_format=torch.channels_last)


def with_gaps():
    model = small_network()
    for index in (0, 3):
        wide = torch.zeros(*model[index].weight.shape[:3], 7)
        wide[..., :3] = model[index].weight.detach()
        model[index].weight = nn.Parameter(wide[..., :3])
    return model


@pytest.mark.parametrize("build", [channels_last, with_gaps])
def test_any_memory_format_is_compared(build):
    model, optimizer = trained(2, build())
    train(model, optimizer, 2)
    permute_the_channels(model)
    with pytest.raises(ValueError, match=REFUSED):
        train(model, optimizer, 1)


def copy_the_same(model):
    for p in model.parameters():
        p.data.copy_(p.data.clone())


def exchange_for_the_same(model):
    for p in model.parameters():
        p.data = p.data.clone()


def as_a_vector_and_back(model):
    vector_to_parameters(parameters_to_vector(model.parameters()), model.parameters())


def swap_out_and_in(model):
    held = [p.data for p in model.parameters()]
    load_a_vector(model)
    for p, values in zip(model.parameters(), held, strict=True):
        p.data = values


def round_a_little(model):
    model[3].weight.data.mul_(1 + 2e-7)


@pytest.mark.parametrize(
    "write", [copy_the_same, exchange_for_the_same, as_a_vector_and_back, swap_out_and_in]
)
@pytest.mark.parametrize("num_steps", [0, 3, 32])
def test_the_same_values_through_data_change_nothing(write, num_steps):
    model, optimizer = trained(num_steps)
    plain, reference = trained(num_steps)
    for _ in range(2):
        write(model)
        train(model, optimizer, 2)
        train(plain, reference, 2)
    assert same_bits(model, plain)


def test_rounding_through_data_is_no_change():
    model, optimizer = trained()
    round_a_little(model)
    train(model, optimizer, 1)


def test_a_memory_format_chosen_after_building_trains_on():
    model, optimizer = trained(model=small_network().double())
    plain, reference = trained(model=small_network().double())
    model.to(memory_format=torch.channels_last)
    train(model, optimizer, 32)
    train(plain, reference, 32)
    assert model[3].weight.is_contiguous(memory_format=torch.channels_last)
    assert optimizer.phase == 2
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    permute_the_channels(model)
    with pytest.raises(ValueError, match=REFUSED):
        train(model, optimizer, 1)


def test_closures_and_skipped_steps_are_no_writes():
    model = small_network()
    weights = select_weights(model, Ternary(), keep_float=("6",))
    optimizer = BinaryRelax(LBFGS(model.parameters(), lr=0.5, max_iter=3), weights, Hard())

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
        with optimizer.projected():
            loss_of(model)
    copy_others(model)
    with pytest.raises(ValueError, match=REFUSED):
        optimizer.step(closure)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_notice_data_writes_too(duplicate):
    model, optimizer = duplicate(trained())
    train(model, optimizer, 1)
    copy_others(model)
    model, optimizer = duplicate((model, optimizer))
    with pytest.raises(ValueError, match=REFUSED):
        train(model, optimizer, 1)


def test_the_step_that_only_makes_state_does_not_hide_data_writes():
    model = small_network()
    optimizer = wrapped(model, lambda m: sgd(m, lr=0.0))
    copy_others(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert optimizer.base.state and optimizer.num_steps == 0
    with pytest.raises(ValueError, match=REFUSED):
        train(model, optimizer, 1)


def test_another_shape_is_refused_by_name():
    model, optimizer = trained()
    model[3].weight.grad = None
    model[3].weight.data = torch.randn(5, 6, 1, 1)
    with pytest.raises(ValueError, match=r"3.weight changed dtype, device or shape after"):
        optimizer.step()


def test_adopting_converted_weights_is_refused():
    model, optimizer = trained()
    model.double()
    with pytest.raises(ValueError, match=r"adopt_weights\(\): 0.weight, 3.weight changed dtype"):
        optimizer.adopt_weights()


def test_float_weights_put_into_the_model_are_not_overwritten():
    """While λ is 0, x is equal to y, and exchanging their memory would go unnoticed."""
    weight = nn.Parameter(torch.randn(4, 4))
    optimizer = BinaryRelax(SGD([weight], lr=0.1), {weight: Binary()}, LinearMix(2, 4))
    weight.data = optimizer.float_weights[weight]
    with pytest.raises(ValueError, match=r"weight 0 of 1 lies in the memory of .*\.clone\(\)"):
        optimizer.step()
    weight.data = weight.data.clone()
    optimizer.step()


def test_weights_in_one_memory_are_refused():
    """Each would have a y of its own, and x of the last one would be that of all."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight.data = model[0].weight.data
    with pytest.raises(ValueError, match=r"1.weight lies in the memory of other weights"):
        BinaryRelax(sgd(model), select_weights(model, Binary()), Hard())
    model, optimizer = trained()
    late = nn.Parameter(model[3].weight.data)
    with pytest.raises(ValueError, match="lies in the memory of other weights"):
        optimizer.add_param_group({"params": [late]}, {late: Binary()})
    assert len(optimizer.param_groups) == 1


def test_projected_gradient_starts_from_data_writes():
    model, plain = small_network(), small_network()
    weights = select_weights(model, Binary(), keep_float=("6",))
    optimizer = ProjectedGradient(SGD(model.parameters(), lr=0.1), weights)
    for write in (copy_others, exchange_the_memory):
        write(model)
        plain.load_state_dict(model.state_dict())
        train(model, optimizer, 1)
        train(plain, SGD(plain.parameters(), lr=0.1), 1)
        assert torch.equal(model[3].weight, Binary().project(plain[3].weight))


def replace_on_one_rank():
    rank = torch.distributed.get_rank()
    model, optimizer = sharded(quantizer=Ternary())
    train(model, optimizer, 2)
    weight = model[3].weight
    weight.data.copy_(weight.data.clone())
    train(model, optimizer, 1)
    if rank == 1:
        weight.data.to_local().zero_()
    with pytest.raises(ValueError, match=r"the values of 3.weight are"):
        train(model, optimizer, 1)
    optimizer.adopt_weights()
    assert bool(optimizer.float_weights[weight].to_local().any()) == (rank == 0)
    train(model, optimizer, 1)


def test_all_processes_notice_what_one_has_written_to_its_shard(tmp_path):
    run_on_ranks(replace_on_one_rank, 2, tmp_path)


def train_replicas():
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(small_network())
    schedule = GeometricGrowth.reaching(150.0, phase_one_steps=4, every=1)
    weights = select_weights(model, Ternary(), keep_float=("6",))
    optimizer = BinaryRelax(sgd(model), weights, schedule)
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(IMAGES), LABELS).backward()
        optimizer.step()
    assert optimizer.phase == 2


def test_replicas_raise_no_false_alarm(tmp_path):
    run_on_ranks(train_replicas, 2, tmp_path)
