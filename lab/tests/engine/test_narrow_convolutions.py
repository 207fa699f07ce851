"""The kernels for 3×3 convolutions of few channels beside torch's own convolution.

With a CUDA device they are compiled; without one, Triton's interpreter runs the same kernels on
CPU tensors (see tests/conftest.py).
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

pytest.importorskip("triton", reason="the kernels are written in Triton")
from binaryrelax_lab.engine.narrow_convolutions import PLANS, Convolution, FewChannels, quicken
from tests.kernels.lockstep import DEVICE, IS_INTERPRETED

# The interpreter takes the bits of bfloat16 for whole numbers: there the kernels get float32.
DTYPE, ROUNDING = (torch.float32, 1e-6) if IS_INTERPRETED else (torch.bfloat16, 2.0**-7)


def images(number, channels, height, width, seed=0):
    g = torch.Generator().manual_seed(seed)
    values = torch.randn(number, channels, height, width, generator=g)
    return values.to(DEVICE, DTYPE).contiguous(memory_format=torch.channels_last)


def assert_close(ours, theirs):
    error = (ours.double() - theirs.double()).abs().amax()
    assert error <= ROUNDING * theirs.double().abs().amax()


@pytest.mark.parametrize("channels", PLANS)
@pytest.mark.parametrize("shape", [(2, 5, 7), (1, 8, 8), (3, 1, 4), (1, 3, 1)])
def test_result_and_gradients_are_those_of_torch(channels, shape):
    number, height, width = shape
    x = images(number, channels, height, width).requires_grad_()
    weight = torch.randn(channels, channels, 3, 3, generator=torch.Generator().manual_seed(1))
    weight = weight.to(DEVICE).requires_grad_()
    gradient = images(number, channels, height, width, seed=2)
    exact = functional.conv2d(x.double(), weight.to(DTYPE).double(), padding=1)
    expected = torch.autograd.grad(exact, (x, weight), gradient.double())

    result = Convolution.apply(x, weight)
    found = torch.autograd.grad(result, (x, weight), gradient)

    assert result.dtype == DTYPE and found[1].dtype == torch.float32
    for ours, theirs in zip((result, *found), (exact, *expected), strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("channels", PLANS)
def test_taps_reach_only_their_neighbour(channels):
    """A single pixel shows each tap in its place, and nothing wraps around a border."""
    for row, column in ((0, 0), (0, 3), (2, 1), (3, 3)):
        x = torch.zeros(2, channels, 4, 4)
        x[0, 0, row, column] = 1
        x = x.to(DEVICE, DTYPE).contiguous(memory_format=torch.channels_last)
        weight = torch.zeros(channels, channels, 3, 3)
        weight[0, 0] = torch.arange(1, 10).view(3, 3)
        expected = functional.conv2d(x.float().cpu(), weight, padding=1)
        assert torch.equal(Convolution.apply(x, weight.to(DEVICE)).float().cpu(), expected)


def test_only_layers_of_that_kind_are_quickened():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, bias=False),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.Conv2d(16, 32, 3, padding=1, stride=2, bias=False),
        nn.Conv2d(32, 32, 1, bias=False),
        nn.Conv2d(32, 32, 3, padding=1, groups=2, bias=False),
    )
    names = list(model.state_dict())
    assert quicken(model) == 1 and quicken(model) == 0
    assert isinstance(model[1], FewChannels) and isinstance(model[1], nn.Conv2d)
    assert list(model.state_dict()) == names


def test_resnet20_has_sixteen_of_them():
    from binaryrelax_lab.models import build_network

    assert quicken(build_network("resnet20", 3, 10)) == 16


def test_networks_with_wider_layers_are_left_alone():
    from binaryrelax_lab.models import build_network

    assert quicken(build_network("resnet18", 3, 10)) == 0
