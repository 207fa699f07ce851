"""Under DistributedDataParallel every rank holds the same bits of x and y."""

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from binaryrelax import BinaryRelax, GeometricGrowth, Ternary, select_weights
from tests.optim.toy import sgd, small_network
from tests.support.ranks import run_on_ranks

SCHEDULE = GeometricGrowth.reaching(150.0, phase_one_steps=6, every=1)


def train_on_one_rank():
    rank = distributed.get_rank()
    model = DistributedDataParallel(small_network(seed=rank))  # rank 0's weights reach all
    optimizer = BinaryRelax(
        sgd(model), select_weights(model, Ternary(), keep_float=("6",)), SCHEDULE
    )
    generator = torch.Generator().manual_seed(rank)  # each rank its own images
    for _ in range(9):
        optimizer.zero_grad()
        images = torch.randn(8, 2, 6, 6, generator=generator)
        labels = torch.randint(4, (8,), generator=generator)
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return {optimizer.names[w]: (w.detach(), y) for w, y in optimizer.float_weights.items()}


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_hold_the_same_bits(num_ranks, tmp_path):
    first, *others = run_on_ranks(train_on_one_rank, num_ranks, tmp_path)
    assert set(first) == {"0.weight", "3.weight"}  # wrapper prefixes are gone
    for name, (x, y) in first.items():
        assert torch.equal(x, Ternary().project(y))
        for other in others:
            assert torch.equal(x, other[name][0])
            assert torch.equal(y, other[name][1])
