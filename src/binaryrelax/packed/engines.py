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

from binaryrelax.packed.weights import BINARY, TERNARY, PackedWeight
from binaryrelax.quantizers import PerGroup

Product = Callable[[Tensor, Tensor | None, bool], Tensor]  # (x, bias, fast) -> output
_TRITON_DTYPES = (torch.bfloat16, torch.float16)
_allowed = True


@cache
def native() -> ModuleType | None:
    """The module of the distribution binaryrelax-native, if it is installed."""
    try:
        return importlib.import_module("binaryrelax_native")
    except ModuleNotFoundError:
        return None


@contextmanager
def torch_only() -> Iterator[None]:
    """Inside, packed layers use neither C++ nor Triton kernels: for comparisons."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def engine_name(weight: PackedWeight, x: Tensor) -> str:
    """Which engine multiplies this weight with this input: "native", "triton" or "torch"."""
    if not _allowed or not _has_kernels(weight) or _torch_must_see(x):
        return "torch"
    if x.device.type == "cpu" and x.dtype == torch.float32 and native() is not None:
        return "native"
    if x.device.type == "cuda" and x.dtype in _TRITON_DTYPES and _has_triton():
        return "triton"
    return "torch"


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _has_kernels(weight: PackedWeight) -> bool:
    form = weight.format
    return form.codebook in (BINARY, TERNARY) and not isinstance(form.granularity, PerGroup)


def _torch_must_see(x: Tensor) -> bool:
    """Whether gradients, autocast, torch.func or a tracer need the product as torch operations."""
    return (
        (x.requires_grad and torch.is_grad_enabled())
        or torch._C._are_functorch_transforms_active()  # vmap, jacfwd: x is not what it seems
        or type(x) not in (Tensor, torch.nn.Parameter)  # a subclass has operations of its own
        or torch.is_autocast_enabled(x.device.type)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
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
        rows = x.detach().reshape(-1, form.row_length).contiguous()
        y = rows.new_empty(len(rows), form.num_rows)
        matrix.multiply(rows, y, _plain(bias), fast, torch.get_num_threads())
        return y.reshape(*x.shape[:-1], form.num_rows)

    return product


def native_convolution(weight: PackedWeight, geometry: dict[str, Any]) -> Product:
    """A two-dimensional convolution by the C++ kernels; they want channels last."""
    form = weight.format
    filters = _native_or_fail().PackedFilters(
        weight.codes, weight.scale, form.shape, form.bits, **geometry
    )

    def product(x: Tensor, bias: Tensor | None, fast: bool) -> Tensor:
        if x.dim() == 3:
            return product(x.unsqueeze(0), bias, fast).squeeze(0)
        images = x.detach().contiguous(memory_format=torch.channels_last)
        height, width = filters.output_size(*images.shape[-2:])
        y = images.new_empty(len(images), height, width, form.num_rows)
        threads = torch.get_num_threads()
        filters.convolve(images.permute(0, 2, 3, 1), y, _plain(bias), fast, threads)
        return y.permute(0, 3, 1, 2)

    return product


def triton_linear(weight: PackedWeight) -> Product:
    """A Linear layer by the Triton kernels; they never round activations to 8 bits."""
    from binaryrelax.kernels.packed_matrix import PackedMatrix

    form = weight.format
    matrix = PackedMatrix(weight.codes, weight.scale, form.row_length, form.bits)
    return lambda x, bias, fast: matrix.multiply(x.detach(), bias)


def _plain(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach().float()


def _native_or_fail() -> ModuleType:
    module = native()
    assert module is not None  # engine_name has looked
    return module
