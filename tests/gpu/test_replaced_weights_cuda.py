"""On a CUDA device: weights written through ``.data`` are noticed, and nothing waits for it."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    Ternary,
    Uniform,
    measure,
    select_weights,
)
from binaryrelax.optim.device_flags import CALLS_BETWEEN_READS
from tests.gpu.test_cuda import backward, network, problem, wrapped

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
ENOUGH = 2 * CALLS_BETWEEN_READS  # one call to send the flags, one to look at them
QUANTIZERS = [Binary(), Ternary(), Uniform(bits=4)]  # the last one by reference


def trained(quantizer, schedule=None, num_steps=3):
    model, (images, labels) = network(), problem()
    optimizer = wrapped(model, quantizer, schedule or Hard())
    for _ in range(num_steps):
        optimizer.zero_grad()
        backward(model, images, labels)
        optimizer.step()
    return model, optimizer


def step_until_noticed(optimizer):
    for _ in range(ENOUGH):
        torch.cuda.synchronize()
        optimizer.step()


def copy_others(model):
    model[3].weight.data.copy_(network(1)[3].weight)


def zero_a_channel(model):
    model[3].weight.data[77].zero_()


def permute_the_channels(model):
    model[3].weight.data.copy_(model[3].weight.data.flip(0))


@pytest.mark.parametrize("write", [copy_others, zero_a_channel, permute_the_channels])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_writes_through_data_are_named_late_but_never_not(quantizer, write):
    model, optimizer = trained(quantizer)
    write(model)
    with pytest.raises(ValueError, match=r"some steps ago the values of 3\.weight were not"):
        step_until_noticed(optimizer)
    with pytest.raises(ValueError, match=r"state_dict\(\): some steps ago"):
        optimizer.state_dict()
    optimizer.adopt_weights()
    step_until_noticed(optimizer)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_those_who_wait_refuse_at_once_and_the_weights_can_be_adopted(quantizer):
    model, optimizer = trained(quantizer)
    copy_others(model)
    with pytest.raises(ValueError, match=r"measure\(\): the values of 3\.weight are not"):
        measure(optimizer)
    with pytest.raises(ValueError, match=r"the values of 3\.weight are not"):
        optimizer.projected().__enter__()
    optimizer.adopt_weights()
    assert torch.equal(optimizer.float_weights[model[3].weight], network(1)[3].weight)
    step_until_noticed(optimizer)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_exchanged_memory_is_refused_at_once(quantizer):
    model, optimizer = trained(quantizer)
    vector_to_parameters(parameters_to_vector(network(1).parameters()), model.parameters())
    for _ in range(2):
        with pytest.raises(ValueError, match=r"the values of 0\.weight, 3\.weight are not"):
            optimizer.step()
    optimizer.adopt_weights()
    assert torch.equal(optimizer.float_weights[model[3].weight], network(1)[3].weight)
    step_until_noticed(optimizer)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_a_memory_format_chosen_after_building_trains_on(quantizer):
    schedule = GeometricGrowth(1.0, 1.5, 1, 40)
    model, optimizer = trained(quantizer, schedule)
    held = [p.detach().clone() for p in model.parameters()]
    model.to(memory_format=torch.channels_last)
    assert all(map(torch.equal, held, model.parameters()))
    images, labels = problem()
    for _ in range(ENOUGH + 8):
        optimizer.zero_grad()
        backward(model, images, labels)
        optimizer.step()
    assert optimizer.phase == 2
    for weight, q in optimizer.quantizers.items():
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(weight, q.project(optimizer.float_weights[weight]).to(weight.dtype))


def test_a_square_weight_that_was_transposed_in_place_is_refused():
    layer = nn.Linear(64, 64, bias=False).cuda()
    base = torch.optim.SGD(layer.parameters(), lr=0.1)
    optimizer = BinaryRelax(base, select_weights(nn.Sequential(layer), Binary()), Hard())
    layer.weight.data = layer.weight.data.t()
    written = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=r"values of 0\.weight are not"):
        optimizer.step()
    assert torch.equal(layer.weight, written)
    optimizer.adopt_weights()
    assert torch.equal(optimizer.float_weights[layer.weight], written)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_no_step_waits_and_none_raises_a_false_alarm(quantizer):
    _, optimizer = trained(quantizer, GeometricGrowth(1.0, 1.1, 1, 30))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(ENOUGH + CALLS_BETWEEN_READS):
            optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with optimizer.projected():
        pass
    measure(optimizer)
    assert optimizer.phase == 2


def test_replays_of_a_captured_step_notice_it_and_raise_no_false_alarm():
    model, optimizer = trained(Ternary())
    images, labels = problem()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            backward(model, images, labels)
            optimizer.step()
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        optimizer.zero_grad(set_to_none=False)
        backward(model, images, labels)
        optimizer.step()

    def replay():
        for _ in range(ENOUGH):
            optimizer.prepare_step()
            graph.replay()
            torch.cuda.synchronize()

    replay()
    copy_others(model)
    with pytest.raises(ValueError, match=r"some steps ago the values of 3\.weight were not"):
        replay()
    optimizer.adopt_weights()
    replay()
