"""The toy network under ``fully_shard``, for functions that run on ranks."""

import torch

from binaryrelax import BinaryRelax, Ternary, select_weights
from binaryrelax.quantizers.sharded_weights import whole
from tests.optim.toy import SHORT, sgd, small_network


def shard_network(model, mesh=None):
    """One group of parameters of its own for a layer, the rest with the outermost module."""
    from torch.distributed.fsdp import fully_shard

    fully_shard(model[3], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def sharded(base=sgd, quantizer=None, schedule=SHORT, seed=0, mesh=None):
    """Model and optimizer, the optimizer built after the model was sharded."""
    model = shard_network(small_network(seed), mesh)
    weights = select_weights(model, quantizer or Ternary(), keep_float=("6",))
    return model, BinaryRelax(base(model), weights, schedule)


def snapshot(model, optimizer):
    """Every tensor of the model, and y, in full on each rank."""
    tensors = {name: whole(value).clone() for name, value in model.state_dict().items()}
    y = {f"y of {optimizer.names[w]}": whole(y).clone() for w, y in optimizer.float_weights.items()}
    return {**tensors, **y, "steps": torch.tensor(optimizer.num_steps)}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
