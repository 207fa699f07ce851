"""Engines as objects: a new one joins by its entry, and is asked only for what it knows."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from binaryrelax import Binary, PerChannel, PerGroup, PerLayer, Ternary, Uniform, set_mode
from binaryrelax.packed import engines
from binaryrelax.packed.engines import (
    MODES,
    Engine,
    TritonEngine,
    engine_for,
    has_kernels,
    mode_named,
    torch_only,
)
from binaryrelax.packed.packed_weight import pack_weight
from tests.packed.cases import inputs, packed_copy


class Recording(Engine):
    """Takes every input and multiplies Linear layers with torch; keeps the modes it ran in."""

    name = "recording"

    def __init__(self):
        self.modes = []

    def takes(self, x):
        return True

    def linear(self, weight):
        def product(x, bias, mode):
            self.modes.append(mode.name)
            return nn.functional.linear(x, weight.unpack(), bias)

        return product


@pytest.fixture
def recording(monkeypatch):
    engine = Recording()
    monkeypatch.setattr(engines, "ENGINES", (engine, *engines.ENGINES))
    return engine


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(12, 5))


def test_a_new_engine_joins_by_its_entry_and_layers_without_its_kernels_stay_with_torch(recording):
    _, packed = packed_copy(network, Ternary())
    x = inputs(2, 1, 4, 4)
    with torch.no_grad():
        found = {mode: set_mode(packed, mode)(x) for mode in ("exact", "fast")}
        with torch_only():
            expected = packed(x)
    assert recording.modes == ["exact", "fast"]
    assert all(torch.equal(output, expected) for output in found.values())


@pytest.mark.parametrize("quantizer", [Uniform(bits=3), Binary(granularity=PerGroup(3))], ids=repr)
def test_an_engine_is_not_asked_for_weights_that_it_does_not_know(quantizer, recording):
    _, packed = packed_copy(network, quantizer)
    with torch.no_grad():
        packed(inputs(2, 1, 4, 4))
    assert recording.modes == []


@pytest.mark.parametrize("granularity", [PerLayer(), PerChannel(), PerGroup(6)], ids=repr)
def test_kernels_know_one_or_two_bits_with_one_scale_in_a_row(granularity):
    for quantizer in (Binary(granularity=granularity), Ternary(granularity=granularity)):
        form = pack_weight(quantizer.project(inputs(4, 6)), quantizer).format
        assert has_kernels(form) == (granularity != PerGroup(6))


def test_torch_multiplies_what_it_must_see(recording):
    x = inputs(2, 3)
    assert engine_for(x, None) is recording
    assert engine_for(x.clone().requires_grad_(), None) is None
    with torch_only():
        assert engine_for(x, None) is None


@pytest.mark.parametrize("quantizer", [Binary(), Ternary(granularity=PerChannel())], ids=repr)
def test_triton_multiplies_linear_layers_and_leaves_convolutions_to_torch(quantizer):
    pytest.importorskip("triton")
    weight = pack_weight(quantizer.project(inputs(16, 64)), quantizer)
    x, bias = inputs(3, 64).bfloat16(), inputs(16).bfloat16()
    found = TritonEngine().linear(weight)(x, bias, MODES["exact"])
    expected = nn.functional.linear(x.float(), weight.unpack(), bias.float())
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)
    assert TritonEngine().convolution2d(weight, {}) is None and not TritonEngine().takes(x)


@pytest.mark.parametrize("name", ["faster", "", None, ["fast"], 1])
def test_an_unknown_mode_is_refused_with_the_choices(name):
    with pytest.raises(ValueError, match="runs in mode 'exact' or 'fast'"):
        mode_named(name)


COUNT_THREADS = """
import os, torch
from torch import nn
from binaryrelax import Binary, pack, select_weights, set_kernel_threads

def helpers():
    model(x)
    return len(os.listdir("/proc/self/task")) - before

torch.set_num_threads(1)
model, x = nn.Sequential(nn.Linear(512, 512)), torch.randn(64, 512)
weights = select_weights(model, Binary())
with torch.no_grad():
    for weight, quantizer in weights.items():
        weight.copy_(quantizer.project(weight))
    pack(model, weights)
    before = len(os.listdir("/proc/self/task"))
    found = [helpers()]
    set_kernel_threads(2)
    torch.set_num_threads(4)
    found.append(helpers())
    set_kernel_threads(None)
    found.append(helpers())
    torch.set_num_threads(6)
    found.append(helpers())
print(*found)
"""


@pytest.mark.skipif(engines.native() is None, reason="needs binaryrelax-native")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux does")
def test_kernels_use_as_many_threads_as_torch_unless_told_otherwise():
    command = [sys.executable, "-c", COUNT_THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["0", "1", "3", "5"], "")
