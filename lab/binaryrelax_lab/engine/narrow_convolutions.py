"""3×3 convolutions of few channels in bf16: the layers of ResNet-20, faster than cuDNN has them.

Images lie channels last, so that a pixel's channels are one short run of memory. A convolution is
nine small matrix products, one for each tap (each place of the 3×3 window); those of the output's
gradient with the reversed taps give the input's gradient, and those of both the weight's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of the work a program takes, and the warps it has; found by trial on an H200.

    Args:
        pixels: of the output that a program makes.
        gradient_pixels: that a program multiplies at once for the gradient of the weight.
        gradient_run: pixels that it goes through in all.
    """

    pixels: int
    gradient_pixels: int
    gradient_run: int
    stages: int = 3
    warps: int = 4


PLANS = {
    16: Plan(pixels=128, gradient_pixels=128, gradient_run=1024),
    32: Plan(pixels=128, gradient_pixels=64, gradient_run=512),
    64: Plan(pixels=64, gradient_pixels=64, gradient_run=512),
}


def quicken(model: nn.Module) -> int:
    """Lets the convolutions of a model that suit take these kernels; says how many do.

    Such a layer keeps its parameters, its name and its place; it stays an `nn.Conv2d`. A network
    with wider layers is left alone: its 64 channels lie on large images, where cuDNN is faster.
    """
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    if any(layer.out_channels > max(PLANS) for layer in convolutions):
        return 0
    layers = [layer for layer in convolutions if suits(layer)]
    for layer in layers:
        layer.__class__ = FewChannels
    return len(layers)


def suits(layer: nn.Conv2d) -> bool:
    """Whether this is a 3×3 convolution of the kind that the kernels compute."""
    return (
        type(layer) is nn.Conv2d
        and layer.kernel_size == (3, 3)
        and layer.stride == layer.padding == layer.dilation == (1, 1)
        and layer.groups == 1
        and layer.bias is None
        and layer.in_channels == layer.out_channels
        and layer.in_channels in PLANS
    )


class FewChannels(nn.Conv2d):
    """A 3×3 convolution that computes in bf16, whatever it is given."""

    def forward(self, images: Tensor) -> Tensor:
        """The result, bf16 and channels last."""
        # `to` alone would take a view for channels last that is not dense.
        images = images.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
        return Convolution.apply(images, self.weight)


class Convolution(torch.autograd.Function):
    """The kernels with their gradients; weights are float32, and so is their gradient."""

    @staticmethod
    def forward(context, images: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(images, weight)
        return convolve(images, taps_of(weight).to(images.dtype).contiguous())

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, Tensor]:
        images, weight = context.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        reverse = taps_of(weight.flip(2, 3).transpose(0, 1))
        to_images = convolve(gradient, reverse.to(images.dtype).contiguous())
        taps = weight_gradient_parts(images, gradient).sum(0)
        return to_images, taps.unflatten(0, (3, 3)).permute(3, 2, 0, 1)


def taps_of(weight: Tensor) -> Tensor:
    """A weight as nine matrices from input to output channels: (9, inputs, outputs)."""
    return weight.permute(2, 3, 1, 0).flatten(0, 1)


@triton_op("binaryrelax::convolve_few_channels", mutates_args=())
def convolve(images: Tensor, taps: Tensor) -> Tensor:
    """Images (N, C, H, W), channels last, with taps (9, C, C), contiguous; borders count as 0."""
    number, channels, height, width = images.shape
    plan, num_pixels = PLANS[channels], number * height * width
    result = torch.empty_like(images)
    wrap_triton(convolve_few_channels)[(triton.cdiv(num_pixels, plan.pixels),)](
        images, taps, result, num_pixels,
        height=height, width=width, channels=channels, block=plan.pixels, stages=plan.stages,
        num_warps=plan.warps,
    )  # fmt: skip
    return result


@triton_op("binaryrelax::weight_gradient_of_few_channels", mutates_args=())
def weight_gradient_parts(images: Tensor, gradient: Tensor) -> Tensor:
    """Gradients of the taps from runs of pixels, (runs, 9, C, C), float32; to be summed.

    Sums of parts come out the same each time, where additions to one place would not.
    """
    number, channels, height, width = images.shape
    plan, num_pixels = PLANS[channels], number * height * width
    num_runs = triton.cdiv(num_pixels, plan.gradient_run)
    parts = images.new_empty((num_runs, 9, channels, channels), dtype=torch.float32)
    wrap_triton(weight_gradient_of_few_channels)[(num_runs, 3)](
        images, gradient, parts, num_pixels,
        height=height, width=width, channels=channels, block=plan.gradient_pixels,
        blocks=plan.gradient_run // plan.gradient_pixels, stages=plan.stages,
        num_warps=plan.warps,
    )  # fmt: skip
    return parts


@triton.jit
def convolve_few_channels(
    images, taps, result, num_pixels,
    height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr, block: tl.constexpr,
    stages: tl.constexpr,
):  # fmt: skip
    """A program makes `block` pixels of the result."""
    pixel = tl.program_id(0) * block + tl.arange(0, block)
    column, row = pixel % width, (pixel // width) % height
    channel = tl.arange(0, channels)
    total = tl.zeros((block, channels), tl.float32)
    for tap in tl.range(0, 9, num_stages=stages):
        down, right = tap // 3 - 1, tap % 3 - 1
        is_inside = (row + down >= 0) & (row + down < height) & (pixel < num_pixels)
        is_inside &= (column + right >= 0) & (column + right < width)
        place = (pixel + down * width + right)[:, None] * channels + channel[None, :]
        window = tl.load(images + place, mask=is_inside[:, None], other=0.0)
        matrix = tap * channels * channels + channel[:, None] * channels + channel[None, :]
        total = tl.dot(window, tl.load(taps + matrix), total)
    place = pixel[:, None] * channels + channel[None, :]
    tl.store(result + place, total.to(result.dtype.element_ty), (pixel < num_pixels)[:, None])


@triton.jit
def weight_gradient_of_few_channels(
    images, gradient, parts, num_pixels,
    height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr, block: tl.constexpr,
    blocks: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """A program takes `blocks` blocks of pixels, and the three taps of one row of the window."""
    run, window_row = tl.program_id(0), tl.program_id(1)
    channel = tl.arange(0, channels)
    to_left = tl.zeros((channels, channels), tl.float32)
    to_middle = tl.zeros((channels, channels), tl.float32)
    to_right = tl.zeros((channels, channels), tl.float32)
    for number in tl.range(0, blocks, num_stages=stages):
        pixel = (run * blocks + number) * block + tl.arange(0, block)
        column, row = pixel % width, (pixel // width) % height
        is_known = pixel < num_pixels
        place = pixel[:, None] * channels + channel[None, :]
        change = tl.load(gradient + place, mask=is_known[:, None], other=0.0)
        down = window_row - 1
        is_inside = is_known & (row + down >= 0) & (row + down < height)
        window = images + place + down * width * channels
        has_left = (is_inside & (column >= 1))[:, None]
        left = tl.load(window - channels, mask=has_left, other=0.0)
        to_left = tl.dot(tl.trans(left), change, to_left)
        middle = tl.load(window, mask=is_inside[:, None], other=0.0)
        to_middle = tl.dot(tl.trans(middle), change, to_middle)
        has_right = (is_inside & (column + 1 < width))[:, None]
        right = tl.load(window + channels, mask=has_right, other=0.0)
        to_right = tl.dot(tl.trans(right), change, to_right)
    matrix = channel[:, None] * channels + channel[None, :]
    place = parts + (run * 9 + 3 * window_row) * channels * channels + matrix
    tl.store(place, to_left)
    tl.store(place + channels * channels, to_middle)
    tl.store(place + 2 * channels * channels, to_right)
