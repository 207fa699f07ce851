"""The packed layers: what takes the place of Linear, Conv and Embedding layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryrelax.packed.engines import Engine, ModeName, Product
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.packed_weight import PackedWeight
from binaryrelax.quantizers.quantizable_layers import obstacle, type_name


class PackedLinear(PackedLayer):
    """``nn.Linear`` with a packed weight.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, pack, select_weights
        >>> model = nn.Sequential(nn.Linear(64, 10))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 64)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedLinear'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN = "linear", nn.Linear
    COPIED = ("in_features", "out_features")

    def float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    def make_product(self, engine: Engine) -> Product | None:
        return engine.linear(self.packed_weight)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self._describe_weight()}"


class PackedEmbedding(PackedLayer):
    """``nn.Embedding`` with a packed weight, mostly that of a Linear layer; torch looks it up.

    Args:
        layer: whose place it takes, float or packed; sizes and the like are its.
        weight: codes and scales.
        bias: None; an embedding has none.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Binary, pack, select_weights
        >>> model = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 100, bias=False))
        >>> model[1].weight = model[0].weight  # tied, as in many language models
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> pack(model, weights)[0]
        PackedEmbedding(100, 16, codes=2, PerLayer(), mode='exact')
        >>> model[0](torch.tensor([3, 5])).shape, model[0].codes is model[1].codes
        (torch.Size([2, 16]), True)
    """

    KIND, PLAIN = "embedding", nn.Embedding
    COPIED = (
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
        "scale_grad_by_freq", "sparse",
    )  # fmt: skip
    embedding_dim: int
    padding_idx: int | None

    def forward(self, tokens: Tensor) -> Tensor:
        """The rows of these numbers; no other row is unpacked."""
        if tokens.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"PackedEmbedding: tokens are {tokens.dtype}, not int32 or int64")
        rows = self.packed_weight.unpack_rows(tokens.flatten())
        return rows.to(self.dtype).reshape(*tokens.shape, self.embedding_dim)

    def product_dtype(self, x: Tensor) -> torch.dtype:
        return self.dtype

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.COPIED}

    def float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.embedding(x, weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self._describe_weight()}"


class _PackedConvolution(PackedLayer):
    """A convolution of any dimension with a packed weight."""

    COPIED: ClassVar[tuple[str, ...]] = (
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
        "padding_mode",
    )  # fmt: skip
    padding_mode: str
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
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

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, {self._describe_weight()}"
        )


class PackedConv1d(_PackedConvolution):
    """``nn.Conv1d`` with a packed weight; torch multiplies it.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Binary, pack, select_weights
        >>> model = nn.Sequential(nn.Conv1d(8, 4, 3))
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 8, 16)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedConv1d'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN, convolve = "conv1d", nn.Conv1d, F.conv1d


class PackedConv2d(_PackedConvolution):
    """``nn.Conv2d`` with a packed weight, of any stride, padding, dilation and groups.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, pack, select_weights
        >>> model = nn.Sequential(nn.Conv2d(8, 4, 3, stride=2, padding=1))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 8, 16, 16)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedConv2d'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN, convolve = "conv2d", nn.Conv2d, F.conv2d

    def make_product(self, engine: Engine) -> Product | None:
        geometry = {"stride": self.stride, "dilation": self.dilation, "groups": self.groups}
        geometry["padding"] = self._inner_padding
        return engine.convolution2d(self.packed_weight, geometry)


class PackedConv2dSame(PackedConv2d):
    """timm's ``Conv2dSame``: it pads its input so that a stride of n leaves every n-th pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.padded(x))

    def padded(self, x: Tensor) -> Tensor:
        """The input with zeros around it, as many as its size asks for."""
        sizes = zip(x.shape[-2:], self.kernel_size, self.stride, self.dilation, strict=True)
        totals = [
            max((math.ceil(size / stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
            for size, kernel, stride, dilation in sizes
        ]
        sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
        return F.pad(x, sides)


class PackedConv3d(_PackedConvolution):
    """``nn.Conv3d`` with a packed weight; torch multiplies it.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Binary, pack, select_weights
        >>> model = nn.Sequential(nn.Conv3d(2, 4, 3))
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 2, 8, 8, 8)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedConv3d'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN, convolve = "conv3d", nn.Conv3d, F.conv3d


class _PackedTransposed(_PackedConvolution):
    """A transposed convolution of any dimension with a packed weight; torch multiplies it."""

    COPIED = (*_PackedConvolution.COPIED, "output_padding")
    find_output_padding: ClassVar[Callable[..., Any]] = nn.ConvTranspose2d._output_padding

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """The layer's output; where a stride leaves its size open, ``output_size`` may choose."""
        geometry = self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
        output_padding = self.find_output_padding(x, output_size, *geometry)
        weight, bias = self._float_parameters(x)
        settings = self.stride, self.padding, output_padding, self.groups, self.dilation
        return type(self).convolve(x, weight, bias, *settings)


class PackedConvTranspose1d(_PackedTransposed):
    """``nn.ConvTranspose1d`` with a packed weight; torch multiplies it.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, pack, select_weights
        >>> model = nn.Sequential(nn.ConvTranspose1d(8, 4, 2, stride=2))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 8, 16)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedConvTranspose1d'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN, convolve = "conv_transpose1d", nn.ConvTranspose1d, F.conv_transpose1d


class PackedConvTranspose2d(_PackedTransposed):
    """``nn.ConvTranspose2d`` with a packed weight; torch multiplies it.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Binary, pack, select_weights
        >>> model = nn.Sequential(nn.ConvTranspose2d(8, 4, 2, stride=2))
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 8, 5, 5)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedConvTranspose2d'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN, convolve = "conv_transpose2d", nn.ConvTranspose2d, F.conv_transpose2d


class PackedConvTranspose3d(_PackedTransposed):
    """``nn.ConvTranspose3d`` with a packed weight; torch multiplies it.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, pack, select_weights
        >>> model = nn.Sequential(nn.ConvTranspose3d(2, 4, 2, stride=2))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 2, 4, 4, 4)
        >>> expected = model(x)
        >>> type(pack(model, weights)[0]).__name__
        'PackedConvTranspose3d'
        >>> torch.allclose(model(x), expected, atol=1e-5)
        True
    """

    KIND, PLAIN, convolve = "conv_transpose3d", nn.ConvTranspose3d, F.conv_transpose3d


PACKED_TYPES: tuple[type[PackedLayer], ...] = (
    PackedLinear, PackedEmbedding, PackedConv1d, PackedConv2d, PackedConv3d,
    PackedConvTranspose1d, PackedConvTranspose2d, PackedConvTranspose3d,
)  # fmt: skip
_OF_SUBCLASSES = {"timm.layers.conv2d_same.Conv2dSame": PackedConv2dSame}


def packed_type_of(layer: nn.Module) -> type[PackedLayer] | None:
    """What can take the place of a layer, float or packed; None if nothing does what it does."""
    if isinstance(layer, PackedLayer):
        return type(layer)
    if obstacle(layer) is not None:
        return None
    plain = (packed for packed in PACKED_TYPES if isinstance(layer, packed.PLAIN))
    return _OF_SUBCLASSES.get(type_name(layer)) or next(plain)


def set_mode(model: nn.Module, mode: ModeName) -> nn.Module:
    """Sets the mode of every packed layer, "exact" or "fast", and returns the model.

    "exact" takes activations as they come. "fast" lets a kernel round them to 8 bits where it gains
    by that.

    Args:
        model: what ``pack`` or ``load_packed`` has returned.
        mode: "exact", which packed layers start with, or "fast".

    Raises:
        ValueError: there is no such mode.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Binary, pack, select_weights, set_mode
        >>> model = nn.Sequential(nn.Linear(64, 10))
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> set_mode(pack(model, weights), "fast")
        Sequential(
          (0): PackedLinear(64, 10, codes=2, PerLayer(), mode='fast')
        )
    """
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
