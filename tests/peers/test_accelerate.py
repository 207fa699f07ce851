"""BinaryRelax in a loop of one's own with Hugging Face's accelerate."""

import subprocess
import sys

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils.fsdp_utils import fsdp2_switch_optimizer_parameters
from torch import nn

from binaryrelax import BinaryRelax, GeometricGrowth, Ternary
from binaryrelax.integrations.huggingface import chosen_weights
from tests.peers.tiny_llama import DATA, same_weights, tiny_llama

pytestmark = pytest.mark.peers
STEPS = 16


@pytest.fixture(autouse=True)
def _no_accelerator_yet():
    """Accelerators of one process share their settings."""
    AcceleratorState._reset_state(reset_partial_state=True)


def prepared(accelerator):
    model = accelerator.prepare(tiny_llama())
    base = torch.optim.AdamW(model.parameters(), lr=5e-3)
    weights = chosen_weights(model, Ternary())
    optimizer = BinaryRelax(base, weights, GeometricGrowth.over(STEPS))
    return model, accelerator.prepare(optimizer), optimizer


def train(accelerator, model, optimizer, steps):
    for step in steps:
        batch = torch.stack([row["labels"] for row in DATA[4 * step : 4 * step + 4]])
        accelerator.backward(model(input_ids=batch, labels=batch).loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("stop", [5, 14], ids=["in phase one", "in phase two"])
def test_a_loop_resumes_to_the_same_bits(precision, stop, tmp_path):
    accelerator = Accelerator(cpu=True, mixed_precision=precision)
    model, wrapped, optimizer = prepared(accelerator)
    train(accelerator, model, wrapped, range(stop))
    accelerator.save_state(tmp_path)
    train(accelerator, model, wrapped, range(stop, STEPS))
    assert optimizer.phase == 2
    assert {weight.unique().numel() for weight in optimizer.quantizers} == {3}
    accelerator.free_memory()

    again, wrapped, optimizer = prepared(accelerator)
    accelerator.load_state(tmp_path)
    assert optimizer.num_steps == stop
    train(accelerator, again, wrapped, range(stop, STEPS))
    assert same_weights(model, again)
    accelerator.free_memory()


def test_parameters_that_accelerate_exchanges_are_noticed():
    """Under FSDP2 it has the optimizer made first, then shards the model, then does this."""
    model = nn.Linear(8, 4)
    base = torch.optim.AdamW(model.parameters())
    optimizer = BinaryRelax(base, {model.weight: Ternary()}, GeometricGrowth.over(STEPS))
    sharded = {p.data_ptr(): nn.Parameter(p.detach().clone()) for p in model.parameters()}
    for group in optimizer.param_groups:
        group["params"] = [as_accelerate_leaves_it(p) for p in group["params"]]
    fsdp2_switch_optimizer_parameters(optimizer, sharded)
    with pytest.raises(ValueError, match=r"exchanged weight 0 of 1 in AdamW, as accelerate does"):
        optimizer.step()


def as_accelerate_leaves_it(parameter):
    empty = torch.empty(1)
    empty.data_ptr = parameter.data_ptr()
    return empty


def test_two_processes_end_with_the_same_bits(tmp_path):
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = ["-m", "tests.peers.on_ranks", str(tmp_path), "accelerate"]
    done = subprocess.run(
        [sys.executable, *command, *script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    layers = [tensor for name, tensor in first.items() if "_proj" in name]
    assert len(layers) == 7 and all(layer.unique().numel() == 3 for layer in layers)
