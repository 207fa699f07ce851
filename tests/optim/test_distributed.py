"""Under DistributedDataParallel every rank holds the same bits of x and y."""

import os

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from binaryrelax import BinaryRelax, GeometricGrowth, Ternary, select_weights
from tests.optim.toy import sgd, small_network

NUM_RANKS = 2
SCHEDULE = GeometricGrowth.reaching(150.0, phase_one_steps=6, every=1)


def train_on_one_rank(rank: int, file: str, folder: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=NUM_RANKS
    )
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
    held = {optimizer.names[w]: (w.detach(), y) for w, y in optimizer.float_weights.items()}
    torch.save(held, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_ranks_hold_the_same_bits(tmp_path):
    multiprocessing.spawn(
        train_on_one_rank, (str(tmp_path / "meeting"), str(tmp_path)), nprocs=NUM_RANKS
    )
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(NUM_RANKS))
    assert set(first) == {"0.weight", "3.weight"}  # wrapper prefixes are gone
    for name, (x, y) in first.items():
        assert torch.equal(x, second[name][0])
        assert torch.equal(y, second[name][1])
        assert torch.equal(x, Ternary().project(y))
