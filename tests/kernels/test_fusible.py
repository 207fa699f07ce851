"""Which weights the kernels take, how they notice one that moved, and life without them."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    PerChannel,
    PerGroup,
    PerLayer,
    Ternary,
    Uniform,
)
from tests.kernels.lockstep import (
    DEVICE,
    GROUPED,
    PER_LAYER,
    QUANTIZERS,
    FusedRelaxation,
    is_fusible,
)
from tests.quantizers.cases import random_weights


def pair(*shape, **options):
    x = nn.Parameter(torch.zeros(shape, device=DEVICE, **options))
    return x, torch.zeros_like(x).detach()


def channels_last(*shape):
    x = torch.empty(shape, device=DEVICE).to(memory_format=torch.channels_last)
    return nn.Parameter(x), x.clone()


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
@pytest.mark.parametrize("shape", [(1,), (3, 9), (4, 3, 3, 3), (2, 3, 1, 1), (5, 1)])
def test_dense_float32_weights_are_fusible(quantizer, shape):
    assert is_fusible(*pair(*shape), quantizer)
    if len(shape) == 4:
        assert is_fusible(*channels_last(*shape), quantizer)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_are_refused(dtype):
    assert not is_fusible(*pair(2, 4, dtype=dtype), Binary())
    x, y = pair(2, 4)
    assert not is_fusible(x, y.to(dtype), Binary())
    assert not is_fusible(x.detach().to(dtype), y, Binary())


@pytest.mark.parametrize(
    "quantizer",
    [Uniform(bits=2), Uniform(bits=3), *(q(granularity=PerGroup(2)) for q in (Binary, Ternary))],
    ids=repr,
)
def test_other_sets_are_refused(quantizer):
    """Uniform(bits=2) equals Ternary() but is another class, with a reference of its own."""
    assert not is_fusible(*pair(2, 4), quantizer)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_other_layouts_are_refused(quantizer):
    x, y = pair(4, 6)
    assert not is_fusible(x[:, :3], y[:, :3], quantizer)  # gaps
    assert not is_fusible(x[:1].expand(4, 6), y[:1].expand(4, 6), quantizer)  # overlaps
    assert not is_fusible(x, y.T.contiguous().T, quantizer)  # x and y in different orders
    assert not is_fusible(channels_last(2, 3, 3, 3)[0], pair(2, 3, 3, 3)[1], quantizer)
    assert not is_fusible(x, pair(3, 6)[1], quantizer)  # the same strides, but shorter
    assert not is_fusible(x, torch.empty(4, 6, device="meta"), quantizer)  # elsewhere
    assert not is_fusible(*pair(0, 6), quantizer)
    assert not is_fusible(x, nn.Parameter(y), quantizer)  # may be any subclass of Tensor


def test_a_channel_must_be_a_run_of_memory():
    x, y = pair(6, 4)
    assert is_fusible(x.T, y.T, Binary())
    assert not is_fusible(x.T, y.T, Binary(granularity=PerChannel()))
    assert not is_fusible(*pair(), Binary(granularity=PerChannel()))
    assert is_fusible(*pair(), Binary(granularity=PerLayer()))


@pytest.mark.parametrize("quantizer", GROUPED, ids=repr)
def test_short_groups_that_are_runs_of_memory_are_fusible(quantizer):
    size = quantizer.granularity.size
    for shape in ((3, size), (1, 3 * size), (2, size, 2, 2), (size,)):
        fits = math.prod(shape[1:]) % size == 0
        assert is_fusible(*pair(*shape), quantizer) == fits
    assert not is_fusible(*channels_last(2, size, 2, 2), quantizer)  # a group is scattered
    x, y = pair(size, size)
    assert not is_fusible(x.T, y.T, quantizer)
    assert not is_fusible(x, y.T.contiguous().T, quantizer)
    assert not is_fusible(*pair(0, size), quantizer)


@pytest.mark.parametrize("size", [2, 16, 96, 512])
def test_groups_of_other_sizes_are_refused(size):
    assert not is_fusible(*pair(2, 3 * 512), Ternary(granularity=PerGroup(size)))


def test_positions_in_a_row_must_fit_into_int32():
    for num_weights, fits in ((2**31 - 2**16, True), (2**31 - 2**16 + 1, False), (2**32, False)):
        weight = torch.empty(num_weights, device="meta")
        assert is_fusible(weight, weight, Binary()) == fits
        assert not is_fusible(weight, weight, Ternary())
    many = torch.empty(2**20, 2**12, device="meta")
    assert not is_fusible(many, many, Binary())
    assert is_fusible(many, many, Binary(granularity=PerChannel()))


def test_equal_weights_of_a_row_must_fit_into_one_bin():
    for num_weights, fits in ((2**25 - 1, True), (2**25, False)):
        weight = torch.empty(num_weights, device="meta")
        assert is_fusible(weight, weight, Ternary()) == fits
    many = torch.empty(2**15, 2**12, device="meta")
    assert is_fusible(many, many, Ternary(granularity=PerChannel()))


@pytest.mark.parametrize("quantizer", PER_LAYER, ids=repr)
def test_a_weight_that_moved_is_noticed(quantizer):
    def fused():
        x = nn.Parameter(random_weights(3, 5).to(DEVICE))
        y = random_weights(3, 5, seed=1).to(DEVICE)
        relaxation = FusedRelaxation(quantizer, [pair(2, 2), (x, y)])
        assert relaxation.is_current()
        return x, y, relaxation

    x, y, relaxation = fused()
    with torch.no_grad():
        x.mul_(2)
    y.copy_(x.detach())
    assert relaxation.is_current()
    x.data = x.data.clone()  # as Module.to() does
    assert not relaxation.is_current()
    x, y, relaxation = fused()
    y.set_(y.clone())
    assert not relaxation.is_current()


def test_the_library_works_where_triton_is_not_installed():
    """The kernels are imported only for weights on a CUDA device."""
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch, binaryrelax as b\n"
        "assert not [m for m in sys.modules if m.startswith('binaryrelax.kernels.')]\n"
        "layer = torch.nn.Linear(3, 2)\n"
        "base = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
        "optimizer = b.BinaryRelax(base, b.select_weights(layer, b.Ternary()), b.Hard())\n"
        "layer(torch.ones(1, 3)).sum().backward(); optimizer.step()\n"
        "assert torch.equal(layer.weight, b.Ternary().project(layer.weight))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
