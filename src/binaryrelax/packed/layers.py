"""Layers that hold codes and scales instead of float weights. They infer; they do not train."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryrelax.packed.engines import (
    Product,
    engine_name,
    has_kernels,
    native_convolution,
    native_linear,
    triton_linear,
)
from binaryrelax.packed.weights import PackedWeight, WeightFormat

Mode = Literal["exact", "fast"]


class PackedLayer(nn.Module):
    """What packed layers share: codes, scales, a bias or none, and the float weight on demand.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.
    """

    KIND: ClassVar[str]  # what files call it
    COPIED: ClassVar[tuple[str, ...]]  # attributes of the layer whose place it takes
    PLAIN: ClassVar[type[nn.Module]]  # the layer whose place it takes
    codes: Tensor
    scale: Tensor
    bias: nn.Parameter | None

    def __init__(self, layer: nn.Module, weight: PackedWeight, bias: Tensor | None) -> None:
        super().__init__()
        for name in self.COPIED:
            setattr(self, name, getattr(layer, name))
        self.format: WeightFormat = weight.format
        self.register_buffer("codes", weight.codes)
        self.register_buffer("scale", weight.scale)
        fixed = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)
        self.register_parameter("bias", fixed)
        self.mode = "exact"
        self._has_kernels = has_kernels(weight.format)
        self._products: dict[str, _Made] = {}  # what the engines have re-tiled

    @property
    def mode(self) -> Mode:
        """How it treats activations.

        "exact" takes them as they come. "fast" lets a kernel round them to 8 bits where it gains
        by that (one scale per row of a Linear layer's input, one per image of a convolution's).
        """
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode={mode!r}: a packed layer runs in mode 'exact' or 'fast'")
        self._mode: Mode = mode

    @property
    def packed_weight(self) -> PackedWeight:
        """Codes and scales, with what they mean."""
        return PackedWeight(self.format, self.codes, self.scale)

    @property
    def weight(self) -> Tensor:
        """The float weight, made anew at every access: the bits of the weight that was packed."""
        return self.packed_weight.unpack()

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, by the fastest engine that takes this input."""
        bias = self._parameters["bias"]  # not self.bias, which takes a microsecond to look up
        product = self._product(engine_name(x, bias)) if self._has_kernels else None
        if product is not None:
            return product(x, bias, self._mode == "fast")
        # A weight converted to whole numbers would be another one: torch refuses such inputs.
        dtype = x.dtype if x.is_floating_point() else self.scale.dtype
        return self.float_product(
            x, self.weight.to(dtype), None if bias is None else bias.to(dtype)
        )

    @abstractmethod
    def float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The output, by torch, from the float weight."""

    @abstractmethod
    def make_product(self, engine: str) -> Product | None:
        """The output, by an engine that reads the codes; None if it has no kernel for this."""

    def _product(self, engine: str) -> Product | None:
        """What ``make_product`` has made, made anew when codes or scales are others."""
        if engine == "torch":
            return None
        made = self._products.get(engine)
        codes, scale = self._buffers["codes"], self._buffers["scale"]
        assert codes is not None and scale is not None
        if made is None or not made.is_of(codes, scale):
            made = self._products[engine] = _Made(self.make_product(engine), codes, scale)
        return made.product

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PackedLayer:
        """``model.to(...)``: scales move, but stay float32; rounded ones would be other weights."""
        scale = self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.scale.dtype != torch.float32:
            self.scale = scale.to(self.scale.device)
        self._products.clear()
        return self

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Forgets what was re-tiled: tensors of inference mode do not tell when written to."""
        self._products.clear()
        super()._load_from_state_dict(*arguments)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_products": {}}  # copies and pickles re-tile for themselves

    def _describe_weight(self) -> str:
        form = self.format
        return f"codes={len(form.codebook)}, {form.granularity}, mode={self.mode!r}"


class PackedLinear(PackedLayer):
    """``nn.Linear`` with a packed weight."""

    KIND, PLAIN = "linear", nn.Linear
    COPIED = ("in_features", "out_features")

    def float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    def make_product(self, engine: str) -> Product | None:
        make = native_linear if engine == "native" else triton_linear
        return make(self.packed_weight)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self._describe_weight()}"


class _PackedConvolution(PackedLayer):
    """A convolution of any dimension with a packed weight."""

    COPIED = (
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
        "padding_mode",
    )  # fmt: skip
    padding_mode: str
    convolve: ClassVar[Callable[..., Tensor]]

    def __init__(self, layer: nn.Module, weight: PackedWeight, bias: Tensor | None) -> None:
        super().__init__(layer, weight, bias)
        self._sides = _padding_sides(layer)
        is_symmetric = all(before == after for before, after in self._sides)
        self._pads_first = self.padding_mode != "zeros" or not is_symmetric
        self._inner_padding = tuple(0 if self._pads_first else side for side, _ in self._sides)

    def forward(self, x: Tensor) -> Tensor:
        if self._pads_first:  # in the order of F.pad: last dimension first
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            x = F.pad(x, [side for sides in reversed(self._sides) for side in sides], mode=mode)
        return super().forward(x)

    def float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve = type(self).convolve
        return convolve(
            x, weight, bias, self.stride, self._inner_padding, self.dilation, self.groups
        )

    def make_product(self, engine: str) -> Product | None:
        return None

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, {self._describe_weight()}"
        )


class PackedConv1d(_PackedConvolution):
    """``nn.Conv1d`` with a packed weight; torch multiplies it."""

    KIND, PLAIN, convolve = "conv1d", nn.Conv1d, F.conv1d


class PackedConv2d(_PackedConvolution):
    """``nn.Conv2d`` with a packed weight, of any stride, padding, dilation and groups."""

    KIND, PLAIN, convolve = "conv2d", nn.Conv2d, F.conv2d

    def make_product(self, engine: str) -> Product | None:
        if engine != "native":
            return None
        geometry = {"stride": self.stride, "dilation": self.dilation, "groups": self.groups}
        return native_convolution(self.packed_weight, {**geometry, "padding": self._inner_padding})


class PackedConv3d(_PackedConvolution):
    """``nn.Conv3d`` with a packed weight; torch multiplies it."""

    KIND, PLAIN, convolve = "conv3d", nn.Conv3d, F.conv3d


PACKED_TYPES: tuple[type[PackedLayer], ...] = (
    PackedLinear, PackedConv1d, PackedConv2d, PackedConv3d,
)  # fmt: skip
KINDS = {packed.KIND: packed for packed in PACKED_TYPES}


def packed_type_of(layer: nn.Module) -> type[PackedLayer] | None:
    """What can take the place of a layer; None if nothing does what it does.

    A subclass of Linear or Conv will do, such as the output projection of nn.MultiheadAttention,
    unless it computes its output in a way of its own.
    """
    for packed in PACKED_TYPES:
        methods = ("forward", "_conv_forward")
        if isinstance(layer, packed.PLAIN) and all(
            getattr(type(layer), method, None) is getattr(packed.PLAIN, method, None)
            for method in methods
        ):
            return packed
    return None


def set_mode(model: nn.Module, mode: Mode) -> nn.Module:
    """Sets the mode of every packed layer, "exact" or "fast", and returns the model."""
    for module in model.modules():
        if isinstance(module, PackedLayer):
            module.mode = mode
    return model


def _padding_sides(layer: Any) -> list[tuple[int, int]]:
    """Zeros before and after, per dimension."""
    if layer.padding == "valid":
        return [(0, 0)] * len(layer.kernel_size)
    if layer.padding == "same":
        totals = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [(side, side) for side in layer.padding]


class _Made:
    """A product, and the tensors that it was made from as they were."""

    def __init__(self, product: Product | None, codes: Tensor, scale: Tensor) -> None:
        self.product, self.codes, self.scale = product, codes, scale
        self.versions = _version(codes), _version(scale)

    def is_of(self, codes: Tensor, scale: Tensor) -> bool:
        """Whether it was made from these tensors, and neither has been written to since."""
        return (
            codes is self.codes
            and scale is self.scale
            and self.versions == (_version(codes), _version(scale))
        )


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
