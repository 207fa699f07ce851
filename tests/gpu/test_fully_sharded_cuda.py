"""fully_shard on a CUDA device: one rank, which still goes through every exchange."""

import math

import pytest
import torch
from torch import distributed, nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    OneStepLloyd,
    PerChannel,
    Ternary,
    TernaryThreshold,
    Uniform,
    measure,
    select_weights,
)
from binaryrelax.optim.device_flags import CALLS_BETWEEN_READS
from binaryrelax.quantizers.sharded_weights import is_dtensor, whole

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
]
QUANTIZERS = [
    Binary(),
    TernaryThreshold(),
    Ternary(),
    OneStepLloyd(bits=3),
    Uniform(bits=3),
    Ternary(granularity=PerChannel()),
]
SCHEDULE = GeometricGrowth(1.0, 2.0, 1, 4)  # both phases


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory):
    meeting = f"file://{tmp_path_factory.mktemp('ranks')}/meeting"
    torch.cuda.set_device(0)
    distributed.init_process_group("cpu:gloo,cuda:nccl", init_method=meeting, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU()).cuda()


def sharded(quantizer, **options):
    from torch.distributed.fsdp import fully_shard

    model = network()
    fully_shard(model, **options)
    return model, wrapped(model, quantizer)


def wrapped(model, quantizer):
    base = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return BinaryRelax(base, select_weights(model, quantizer), SCHEDULE)


def train(model, optimizer, num_steps):
    images = torch.randn(16, 64, generator=torch.Generator().manual_seed(1)).cuda()
    for _ in range(num_steps):
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()


def assert_same(optimizer, reference):
    pairs = zip(optimizer.float_weights.items(), reference.float_weights.items(), strict=True)
    for (weight, y), (other, expected) in pairs:
        assert is_dtensor(weight) and is_dtensor(y)
        torch.testing.assert_close(whole(weight).to(other.device), other.detach())
        torch.testing.assert_close(whole(y).to(other.device), expected)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_trains_as_without_sharding(quantizer):
    model, optimizer = sharded(quantizer)
    plain = network()
    reference = wrapped(plain, quantizer)
    train(model, optimizer, 7)
    train(plain, reference, 7)
    assert_same(optimizer, reference)
    for ours, theirs in zip(measure(optimizer), measure(reference), strict=True):
        assert ours.scale == pytest.approx(theirs.scale, rel=1e-4)
        assert ours.distance == pytest.approx(0, abs=1e-6)
        assert ours.zeros == pytest.approx(theirs.zeros, abs=1e-3)


@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), Uniform(bits=3)], ids=repr)
def test_trains_with_shards_kept_on_the_host(quantizer):
    from torch.distributed.fsdp import CPUOffloadPolicy

    model, optimizer = sharded(quantizer, offload_policy=CPUOffloadPolicy())
    plain = network()
    reference = wrapped(plain, quantizer)
    assert all(weight.device.type == "cpu" for weight in optimizer.quantizers)
    train(model, optimizer, 7)
    train(plain, reference, 7)
    assert_same(optimizer, reference)


def test_non_finite_weights_are_named_some_steps_late():
    model, optimizer = sharded(Ternary())
    train(model, optimizer, 1)
    model[2].weight.grad.to_local()[0, 0] = math.nan
    with pytest.raises(ValueError, match=r"float weights of 2\.weight became NaN"):
        for _ in range(2 * CALLS_BETWEEN_READS):  # one to send the flags, one to look at them
            optimizer.step()
    with pytest.raises(ValueError, match=r"float weights of 2\.weight became NaN"):
        measure(optimizer)


def test_resumes_through_distributed_checkpoint(tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = sharded(Ternary())
    train(model, optimizer, 3)
    saved = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.save(saved, checkpoint_id=tmp_path / "checkpoint")
    twin, resumed = sharded(Ternary())
    loaded = dict(zip(("model", "optimizer"), get_state_dict(twin, resumed), strict=True))
    dcp.load(loaded, checkpoint_id=tmp_path / "checkpoint")
    set_state_dict(
        twin,
        resumed,
        model_state_dict=loaded["model"],
        optim_state_dict=loaded["optimizer"],
    )
    train(model, optimizer, 3)
    train(twin, resumed, 3)
    assert resumed.num_steps == 6
    for weight, same in zip(optimizer.quantizers, resumed.quantizers, strict=True):
        assert torch.equal(whole(weight), whole(same))
