"""What multiplies packed weights: the C++ kernels on a CPU, Triton on CUDA, else torch.

Torch unpacks one layer, multiplies, and forgets the float weight again. It is always right and
needs nothing, and only it differentiates, traces and knows every codebook. An engine does better
for some weights and inputs; a new one is a class here and an entry of ``ENGINES``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

from binaryrelax.packed.packed_weight import BINARY, TERNARY, PackedWeight, WeightFormat
from binaryrelax.quantizers.validation import require_whole

ModeName = Literal["exact", "fast"]
_TRITON_DTYPES = (torch.bfloat16, torch.float16)
_allowed = True
_kernel_threads: int | None = None


@dataclass(frozen=True)
class Mode:
    """How a packed layer treats activations.

    Args:
        name: what users call it.
        rounds_activations: whether a kernel may round them to 8 bits where it gains by that (one
            scale per row of a Linear layer's input, one per image of a convolution's).
    """

    name: ModeName
    rounds_activations: bool


MODES = {
    "exact": Mode("exact", rounds_activations=False),
    "fast": Mode("fast", rounds_activations=True),
}
Product = Callable[[Tensor, Tensor | None, Mode], Tensor]  # (x, bias, mode) -> output


def mode_named(name: object) -> Mode:
    """The mode that users call so.

    Raises:
        ValueError: there is none.
    """
    if not isinstance(name, str) or name not in MODES:
        choices = " or ".join(map(repr, MODES))
        raise ValueError(f"mode={name!r}: a packed layer runs in mode {choices}")
    return MODES[name]


@cache
def native() -> ModuleType | None:
    """The module of the distribution binaryrelax-native, if it is installed."""
    try:
        return importlib.import_module("binaryrelax_native")
    except ModuleNotFoundError:
        return None


def set_kernel_threads(count: int | None) -> None:
    """How many threads the C++ kernels use; None means as many as torch.

    At first it is None: they follow ``torch.set_num_threads``, from the next call on. So do models
    that ``accelerate`` has put into the native runtime.

    torch's own threads go on spinning for about a millisecond after each operation, on the cores
    that the kernels want. Small batches are fastest with ``torch.set_num_threads(1)`` and all
    cores for the kernels.

    Args:
        count: 1 or more, or None.

    Raises:
        ValueError: ``count`` is neither.

    Examples:
        >>> import torch
        >>> from binaryrelax import set_kernel_threads
        >>> torch.set_num_threads(1)  # torch leaves the cores alone ...
        >>> set_kernel_threads(2)  # ... and packed layers use two of them
        >>> set_kernel_threads(None)  # as many as torch again
    """
    global _kernel_threads
    if count is not None:
        count = require_whole("set_kernel_threads", "count", count, low=1)
    _kernel_threads = count


def num_threads() -> int:
    """How many threads the C++ kernels use now."""
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


class Engine(ABC):
    """What multiplies codes without unpacking them, for layers and inputs that it has kernels for.

    Attributes:
        name: what layers know it by.
    """

    name: ClassVar[str]

    @abstractmethod
    def takes(self, x: Tensor) -> bool:
        """Whether it is installed, and multiplies inputs on this device in this dtype."""

    def knows(self, form: WeightFormat) -> bool:
        """Whether it multiplies weights of this format: 1 or 2 bits, and one scale in a row."""
        return form.codebook in (BINARY, TERNARY) and form.granularity.is_constant_in_rows

    def linear(self, weight: PackedWeight) -> Product | None:
        """The output of a Linear layer; None if it has no kernel for one."""
        return None

    def convolution2d(self, weight: PackedWeight, geometry: dict[str, Any]) -> Product | None:
        """The output of a two-dimensional convolution; None if it has no kernel for one."""
        return None


class NativeEngine(Engine):
    """The C++ kernels of the distribution binaryrelax-native, for float32 on a CPU."""

    name = "native"

    def takes(self, x: Tensor) -> bool:
        return x.is_cpu and x.dtype == torch.float32 and native() is not None

    def linear(self, weight: PackedWeight) -> Product:
        form, module = weight.format, native()
        assert module is not None  # takes() has looked
        matrix = module.PackedMatrix(weight.codes, weight.scale, form.row_length, form.bits)

        def product(x: Tensor, bias: Tensor | None, mode: Mode) -> Tensor:
            if x.shape[-1:] != (form.row_length,):
                raise ValueError(
                    f"PackedLinear: input of shape {tuple(x.shape)}, not (..., {form.row_length})"
                )
            rows = x if x.dim() == 2 else x.reshape(-1, form.row_length)
            y = rows.new_empty(len(rows), form.num_rows)
            inputs, outputs = _array(rows.contiguous()), y.numpy()
            matrix.multiply(inputs, outputs, _array(bias), mode.rounds_activations, num_threads())
            return y if x.dim() == 2 else y.reshape(*x.shape[:-1], form.num_rows)

        return product

    def convolution2d(self, weight: PackedWeight, geometry: dict[str, Any]) -> Product:
        """They read and write channels last."""
        form, module = weight.format, native()
        assert module is not None  # takes() has looked
        filters = module.PackedFilters(
            weight.codes, weight.scale, form.shape, form.bits, **geometry
        )

        def product(x: Tensor, bias: Tensor | None, mode: Mode) -> Tensor:
            if x.dim() == 3:
                return product(x.unsqueeze(0), bias, mode).squeeze(0)
            images = x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1)
            height, width = filters.output_size(images.shape[1], images.shape[2])
            y = images.new_empty(len(images), height, width, form.num_rows)
            inputs, outputs = _array(images), y.numpy()
            filters.convolve(inputs, outputs, _array(bias), mode.rounds_activations, num_threads())
            y = y.permute(0, 3, 1, 2)
            if _is_channels_last(x):
                return y
            # Not contiguous(): strides of one channel or pixel look like channels last to others.
            return y.clone(memory_format=torch.contiguous_format)

        return product


class TritonEngine(Engine):
    """The Triton kernels, for half precision on CUDA; they never round activations to 8 bits."""

    name = "triton"

    def takes(self, x: Tensor) -> bool:
        return x.is_cuda and x.dtype in _TRITON_DTYPES and _has_triton()

    def linear(self, weight: PackedWeight) -> Product:
        from binaryrelax.kernels.packed_matrix import PackedMatrix

        form = weight.format
        matrix = PackedMatrix(weight.codes, weight.scale, form.row_length, form.bits)
        return lambda x, bias, mode: matrix.multiply(x.detach(), bias)


ENGINES: tuple[Engine, ...] = (NativeEngine(), TritonEngine())


def has_kernels(form: WeightFormat) -> bool:
    """Whether there are engines besides torch for such weights."""
    return any(engine.knows(form) for engine in ENGINES)


def engine_for(x: Tensor, bias: Tensor | None) -> Engine | None:
    """Which engine multiplies a weight that has kernels with x; None where torch has to."""
    if torch_must_see(x, bias):
        return None
    for engine in ENGINES:
        if engine.takes(x):
            return engine
    return None


def torch_must_see(x: Tensor, bias: Tensor | None = None) -> bool:
    """Whether derivatives, autocast, torch.func or tracers need the product as torch operations."""
    has_gradient = x.requires_grad or (bias is not None and bias.requires_grad)
    return (
        not _allowed
        or (has_gradient and torch.is_grad_enabled())
        or torch._C._are_functorch_transforms_active()  # vmap, jacfwd: x is not what it seems
        or type(x) not in (Tensor, torch.nn.Parameter)  # a subclass has operations of its own
        or x.layout is not torch.strided  # sparse ones and those of mkldnn have others, too
        or x.is_nested
        or torch.is_autocast_enabled("cpu" if x.is_cpu else x.device.type)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or forward_ad._current_level >= 0  # x may carry a tangent
    )


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _is_channels_last(x: Tensor) -> bool:
    """Whether torch gives a convolution of x in channels last: its strides decide, dense or not."""
    (_, channels, height, width), (image, channel, row, pixel) = x.shape, x.stride()
    is_ordered = 0 < channel * channels <= pixel and pixel * width <= row
    return is_ordered and channel != row * height <= image


def _array(tensor: Tensor | None) -> Any:
    """For numpy arrays, a call of the C++ kernels takes a tenth of the time that tensors take."""
    if tensor is None:
        return None
    return (tensor.detach() if tensor.requires_grad else tensor).float().numpy()
