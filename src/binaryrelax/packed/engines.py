"""What multiplies packed weights: the C++ kernels on a CPU, Triton on CUDA, else torch.

``torch`` here means: unpack one layer, multiply, forget the float weight again. It is always right
and needs nothing, and it is the only one that differentiates, traces and knows every codebook.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from binaryrelax.packed.weights import BINARY, TERNARY, PackedWeight, WeightFormat
from binaryrelax.quantizers import PerGroup
from binaryrelax.quantizers.validation import require_whole

Product = Callable[[Tensor, Tensor | None, bool], Tensor]  # (x, bias, fast) -> output
_TRITON_DTYPES = (torch.bfloat16, torch.float16)
_allowed = True
_kernel_threads: int | None = None


@cache
def native() -> ModuleType | None:
    """The module of the distribution binaryrelax-native, if it is installed."""
    try:
        return importlib.import_module("binaryrelax_native")
    except ModuleNotFoundError:
        return None


def set_kernel_threads(count: int | None) -> None:
    """How many threads the C++ kernels use; None means as many as torch.

    torch's own threads go on spinning for about a millisecond after each operation, on the cores
    that the kernels want. Small batches are fastest with ``torch.set_num_threads(1)`` and all
    cores for the kernels.
    """
    global _kernel_threads
    if count is not None:
        count = require_whole("set_kernel_threads", "count", count, low=1)
    _kernel_threads = count


def _num_threads() -> int:
    return _kernel_threads or torch.get_num_threads()


@contextmanager
def torch_only() -> Iterator[None]:
    """Inside, packed layers use neither C++ nor Triton kernels: for comparisons."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def has_kernels(form: WeightFormat) -> bool:
    """Whether there are engines besides torch for such weights."""
    return form.codebook in (BINARY, TERNARY) and not isinstance(form.granularity, PerGroup)


def engine_name(x: Tensor, bias: Tensor | None) -> str:
    """Which engine multiplies a weight that has kernels with x: "native", "triton" or "torch"."""
    if not _allowed or _torch_must_see(x, bias):
        return "torch"
    if x.is_cpu and x.dtype == torch.float32 and native() is not None:
        return "native"
    if x.is_cuda and x.dtype in _TRITON_DTYPES and _has_triton():
        return "triton"
    return "torch"


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _torch_must_see(x: Tensor, bias: Tensor | None) -> bool:
    """Whether derivatives, autocast, torch.func or tracers need the product as torch operations."""
    has_gradient = x.requires_grad or (bias is not None and bias.requires_grad)
    return (
        (has_gradient and torch.is_grad_enabled())
        or torch._C._are_functorch_transforms_active()  # vmap, jacfwd: x is not what it seems
        or type(x) not in (Tensor, torch.nn.Parameter)  # a subclass has operations of its own
        or x.layout is not torch.strided  # sparse ones and those of mkldnn have others, too
        or x.is_nested
        or torch.is_autocast_enabled("cpu" if x.is_cpu else x.device.type)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or forward_ad._current_level >= 0  # x may carry a tangent
    )


def native_linear(weight: PackedWeight) -> Product:
    """A Linear layer by the C++ kernels."""
    form = weight.format
    matrix = _native_or_fail().PackedMatrix(weight.codes, weight.scale, form.row_length, form.bits)

    def product(x: Tensor, bias: Tensor | None, fast: bool) -> Tensor:
        if x.shape[-1:] != (form.row_length,):
            raise ValueError(
                f"PackedLinear: input of shape {tuple(x.shape)}, not (..., {form.row_length})"
            )
        rows = x if x.dim() == 2 else x.reshape(-1, form.row_length)
        y = rows.new_empty(len(rows), form.num_rows)
        rows, threads = rows.contiguous(), _num_threads()
        matrix.multiply(_array(rows), y.numpy(), _array(bias), fast, threads)
        return y if x.dim() == 2 else y.reshape(*x.shape[:-1], form.num_rows)

    return product


def native_convolution(weight: PackedWeight, geometry: dict[str, Any]) -> Product:
    """A two-dimensional convolution by the C++ kernels, which read and write channels last."""
    form = weight.format
    filters = _native_or_fail().PackedFilters(
        weight.codes, weight.scale, form.shape, form.bits, **geometry
    )

    def product(x: Tensor, bias: Tensor | None, fast: bool) -> Tensor:
        if x.dim() == 3:
            return product(x.unsqueeze(0), bias, fast).squeeze(0)
        images = x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1)
        height, width = filters.output_size(images.shape[1], images.shape[2])
        y = images.new_empty(len(images), height, width, form.num_rows)
        filters.convolve(_array(images), y.numpy(), _array(bias), fast, _num_threads())
        y = y.permute(0, 3, 1, 2)
        if _is_channels_last(x):
            return y
        # Not contiguous(): strides of one channel or pixel would look like channels last to others.
        return y.clone(memory_format=torch.contiguous_format)

    return product


def _is_channels_last(x: Tensor) -> bool:
    """Whether torch gives a convolution of x in channels last: its strides decide, dense or not."""
    (_, channels, height, width), (image, channel, row, pixel) = x.shape, x.stride()
    is_ordered = 0 < channel * channels <= pixel and pixel * width <= row
    return is_ordered and channel != row * height <= image


def triton_linear(weight: PackedWeight) -> Product:
    """A Linear layer by the Triton kernels; they never round activations to 8 bits."""
    from binaryrelax.kernels.packed_matrix import PackedMatrix

    form = weight.format
    matrix = PackedMatrix(weight.codes, weight.scale, form.row_length, form.bits)
    return lambda x, bias, fast: matrix.multiply(x.detach(), bias)


def _array(tensor: Tensor | None) -> Any:
    """For numpy arrays, a call of the C++ kernels takes a tenth of the time that tensors take."""
    if tensor is None:
        return None
    return (tensor.detach() if tensor.requires_grad else tensor).float().numpy()


def _native_or_fail() -> ModuleType:
    module = native()
    assert module is not None  # engine_name has looked
    return module
