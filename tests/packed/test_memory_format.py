"""Outputs lie in memory as torch's own do: contiguous of contiguous, channels last of such."""

import pytest
import torch
from torch import nn

from binaryrelax import Binary, Ternary
from tests.packed.cases import ENGINES, by_engine, inputs, layer_pair, packed_copy

EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
FORMATS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=last_of(x)),
    "channels last, some of the channels": lambda x: x.repeat_interleave(2, dim=1).contiguous(
        memory_format=last_of(x)
    )[:, ::2],
    "some of the columns": lambda x: x.repeat_interleave(2, dim=-1)[..., ::2],
    "height and width exchanged": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "the same image for all": lambda x: x[:1].expand(x.shape),
    "a channel for all": lambda x: x[:, :1].expand(x.shape),
}
LAYERS = {  # layer, shape of its input
    "plain": (lambda: nn.Conv2d(4, 6, 3), (2, 4, 7, 6)),
    "of one channel": (lambda: nn.Conv2d(1, 6, 3), (2, 1, 7, 6)),
    "to one channel": (lambda: nn.Conv2d(4, 1, 3), (2, 4, 7, 6)),
    "of one pixel": (lambda: nn.Conv2d(4, 6, 1), (2, 4, 1, 1)),
    "to one pixel": (lambda: nn.Conv2d(4, 6, (7, 6)), (2, 4, 7, 6)),
    "of one row": (lambda: nn.Conv2d(4, 6, (1, 3)), (2, 4, 1, 6)),
    "of one number": (lambda: nn.Conv2d(1, 1, 1), (2, 1, 1, 1)),
    "one image": (lambda: nn.Conv2d(4, 6, 3), (1, 4, 7, 6)),
    "padded": (lambda: nn.Conv2d(4, 6, (2, 4), padding="same"), (2, 4, 5, 5)),
    "padded circularly": (
        lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
        (2, 4, 5, 5),
    ),
    "unbatched": (lambda: nn.Conv2d(4, 6, 3), (4, 7, 6)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 7, 6)),
    "one dimension": (lambda: nn.Conv1d(4, 6, 3), (2, 4, 9)),
    "three dimensions": (lambda: nn.Conv3d(4, 6, 2), (2, 4, 4, 4, 4)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3), (2, 4, 5, 4)),
    "transposed, one dimension": (lambda: nn.ConvTranspose1d(4, 6, 3), (2, 4, 5)),
    "transposed, three dimensions": (lambda: nn.ConvTranspose3d(4, 6, 2), (2, 4, 3, 3, 3)),
}


def last_of(x):
    return {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim(), torch.preserve_format)


@EVERY_ENGINE
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # the float layer's
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("form", FORMATS)
@torch.no_grad()
def test_the_strides_of_an_output_are_those_of_the_float_layer(layer, form, engine):
    make, shape = LAYERS[layer]
    plain, packed = layer_pair(make, Ternary())
    x = FORMATS[form](inputs(*shape))
    with by_engine(engine):
        found = packed(x)
    assert torch.allclose(found, plain(x), atol=1e-5)
    assert found.stride() == plain(x).stride()


@EVERY_ENGINE
@torch.no_grad()
def test_a_classical_network_may_view_what_convolutions_give(engine):
    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3)
            self.last = nn.Linear(24, 3)

        def forward(self, x):
            for convolution in (self.first, self.second):
                x = torch.max_pool2d(torch.relu(convolution(x)), 2)
            return self.last(x.view(x.shape[0], -1))

    plain, packed = packed_copy(LeNet, Binary())
    for size in (1, 3):
        x = inputs(size, 1, 14, 14)
        with by_engine(engine):
            assert torch.allclose(packed(x), plain(x), atol=1e-5)
