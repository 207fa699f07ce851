"""How functions and methods of torch become operations.

A rule takes what torch's function takes, after the builder. Tensors of the network come as
``Held``, its parameters and constants as tensors.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from binaryrelax.export.builder import Builder, CannotLower, Held, conv_settings
from binaryrelax.export.call_graph import OfImage

Rule = Callable[..., Any]
FUNCTIONS: dict[Any, Rule] = {}
METHODS: dict[str, Rule] = {}
OnlyRule = TypeVar("OnlyRule", bound=Rule)


def rule(*targets: Any) -> Callable[[OnlyRule], OnlyRule]:
    """Says for which functions, and methods by name, a rule is."""

    def register(function: OnlyRule) -> OnlyRule:
        for target in targets:
            table: dict[Any, Rule] = METHODS if isinstance(target, str) else FUNCTIONS
            table[target] = function
        return function

    return register


def called(function: Rule, builder: Builder, *args: Any, **kwargs: Any) -> Any:
    """What a rule makes of a call.

    Raises:
        CannotLower: it cannot be lowered.
    """
    try:
        bound = inspect.signature(function).bind(builder, *args, **kwargs)
    except TypeError as error:
        raise CannotLower(f"it is called in a way that no operation knows ({error})") from None
    return function(*bound.args, **bound.kwargs)


def fixed(number: Any, what: str) -> Any:
    """A plain number, which is the same for every image.

    Raises:
        CannotLower: it depends on the size of the image.
    """
    if isinstance(number, OfImage):
        raise CannotLower(f"its {what} depends on the size of the image")
    if isinstance(number, bool) or not isinstance(number, Real):
        raise CannotLower(f"its {what} is {number!r}, not a number")
    return int(number) if isinstance(number, int) else float(number)


def pair(sizes: Any, what: str) -> list[int]:
    """[vertical, horizontal] of what torch takes as one number or two."""
    parts = list(sizes) if isinstance(sizes, (tuple, list)) else [sizes]
    parts = parts * 2 if len(parts) == 1 else parts
    if len(parts) != 2:
        raise CannotLower(f"its {what} is {tuple(parts)}, not of two dimensions")
    return [fixed(part, what) for part in parts]


# Nothing


@rule(
    "contiguous", "clone", "detach", "cpu", "requires_grad_", "float", torch.clone, torch.detach,
)  # fmt: skip
def nothing(builder: Builder, input: Held, **options: Any) -> Held:
    """Calls that leave numbers as they are."""
    return input


@rule("expand", "expand_as", "broadcast_to")
def _expand(builder: Builder, input: Held, *shape: Any) -> Held:
    return input  # what multiplies with it repeats it; anything else finds another shape


@rule("to", "type", "type_as")
def _to(builder: Builder, input: Held, *args: Any, **options: Any) -> Held:
    wanted = [a for a in (*args, *options.values()) if isinstance(a, torch.dtype)]
    if any(dtype != torch.float32 for dtype in wanted):
        raise CannotLower(f"it converts to {wanted[0]}; the runtime computes in float32")
    return input


@rule(
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout,
    torch.dropout, torch.feature_dropout,
)  # fmt: skip
def _dropout(
    builder: Builder, input: Held, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Held:
    if training and p != 0:
        raise CannotLower("it drops numbers in evaluation mode too; give it training=self.training")
    return input


def _stochastic_depth(
    builder: Builder, input: Held, p: float, mode: str, training: bool = True
) -> Held:
    return _dropout(builder, input, p, training)


BY_NAME = {  # functions of others, into which nothing looks
    "torchvision.ops.stochastic_depth.stochastic_depth": _stochastic_depth
}


# Activations

_PLAIN: dict[str, tuple[Any, ...]] = {
    "relu": (F.relu, torch.relu, torch.relu_, "relu", "relu_"),
    "relu6": (F.relu6,),
    "silu": (F.silu,),
    "hard_swish": (F.hardswish,),
    "hard_sigmoid": (F.hardsigmoid,),
    "sigmoid": (F.sigmoid, torch.sigmoid, torch.sigmoid_, "sigmoid", "sigmoid_"),
    "tanh": (F.tanh, torch.tanh, torch.tanh_, "tanh", "tanh_"),
}


def activation(kind: str, builder: Builder, input: Held, inplace: bool = False) -> Held:
    """An activation without further numbers."""
    return builder.activate(input, kind)


for _kind, _targets in _PLAIN.items():
    rule(*_targets)(partial(activation, _kind))


@rule(F.gelu)
def gelu(builder: Builder, input: Held, approximate: str = "none") -> Held:
    """Both kinds of GELU."""
    return builder.activate(input, "gelu_tanh" if approximate == "tanh" else "gelu")


@rule(F.leaky_relu, F.leaky_relu_)
def leaky_relu(
    builder: Builder, input: Held, negative_slope: float = 0.01, inplace: bool = False
) -> Held:
    """Leaky ReLU."""
    return builder.activate(input, "leaky_relu", slope=fixed(negative_slope, "slope"))


@rule(torch.clamp, torch.clamp_, torch.clip, "clamp", "clamp_", "clip", "clip_")
def _clamp(builder: Builder, input: Held, min: Any = None, max: Any = None) -> Held:
    low, high = (None if limit is None else fixed(limit, "limit") for limit in (min, max))
    return builder.activate(input, "clamp", low=low, high=high)


@rule(F.hardtanh)
def hardtanh(
    builder: Builder,
    input: Held,
    min_val: float = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> Held:
    """Two limits."""
    return _clamp(builder, input, min_val, max_val)


@rule(torch.clamp_min, torch.clamp_min_, "clamp_min", "clamp_min_")
def _clamp_min(builder: Builder, input: Held, min: Any) -> Held:
    return _clamp(builder, input, min=min)


@rule(torch.clamp_max, torch.clamp_max_, "clamp_max", "clamp_max_")
def _clamp_max(builder: Builder, input: Held, max: Any) -> Held:
    return _clamp(builder, input, max=max)


@rule(F.softmax, torch.softmax, "softmax")
def softmax(
    builder: Builder, input: Held, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Held:
    """Softmax over channels or features."""
    return _softmax(builder, input, dim, dtype, log=False)


@rule(F.log_softmax, torch.log_softmax, "log_softmax")
def log_softmax(
    builder: Builder, input: Held, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Held:
    """Its logarithm."""
    return _softmax(builder, input, dim, dtype, log=True)


def _softmax(builder: Builder, input: Held, dim: int | None, dtype: Any, *, log: bool) -> Held:
    if dtype not in (None, torch.float32):
        raise CannotLower(f"it converts to {dtype}; the runtime computes in float32")
    _require_channels(input, 1 if dim is None else dim)  # 1 is what torch takes for these
    return Held(builder.emit("softmax", [builder.plain(input)], {"log": log}), input.shape)


def _require_channels(x: Held, dim: Any) -> None:
    if dim not in (1, 1 - len(x.shape)):
        raise CannotLower(f"it works along dimension {dim} of {x.shape}; dimension 1 can be")


# Arithmetic


@rule(operator.add, operator.iadd, torch.add, "add", "add_")
def _add(builder: Builder, input: Any, other: Any, *, alpha: Any = 1) -> Held:
    if alpha != 1:
        other = _multiply(builder, other, alpha) if isinstance(other, Held) else other * alpha
    if isinstance(input, Held) and isinstance(other, Held):
        return _of_two(builder, "add", input, other)
    x, constant = _tensor_and_constant(input, other)
    return builder.affine(x, 1.0, constant)


@rule(operator.sub, operator.isub, torch.sub, torch.subtract, "sub", "sub_")
def _subtract(builder: Builder, input: Any, other: Any, *, alpha: Any = 1) -> Held:
    if isinstance(other, Held):
        return _add(builder, input, _multiply(builder, other, -fixed(alpha, "alpha")))
    return _add(builder, input, -1 * fixed_or_tensor(other), alpha=alpha)


@rule(torch.rsub, "rsub")
def _subtract_from(builder: Builder, input: Any, other: Any, *, alpha: Any = 1) -> Held:
    return _subtract(builder, other, input, alpha=alpha)


@rule(operator.mul, operator.imul, torch.mul, torch.multiply, "mul", "mul_", "multiply")
def _multiply(builder: Builder, input: Any, other: Any) -> Held:
    if isinstance(input, Held) and isinstance(other, Held):
        return _of_two(builder, "multiply", input, other)
    x, constant = _tensor_and_constant(input, other)
    return builder.affine(x, constant, 0.0)


@rule(
    operator.truediv, operator.itruediv, torch.div, torch.divide, torch.true_divide, "div", "div_"
)
def _divide(builder: Builder, input: Any, other: Any) -> Held:
    if isinstance(other, Held):
        raise CannotLower("it divides by a tensor of the network")
    divisor = torch.as_tensor(fixed_or_tensor(other), dtype=torch.float64)
    return _multiply(builder, input, divisor.reciprocal())


@rule(operator.neg, torch.neg, torch.negative, "neg", "neg_")
def _negative(builder: Builder, input: Held) -> Held:
    return builder.affine(input, -1.0, 0.0)


@rule(operator.pow, torch.pow, "pow")
def _power(builder: Builder, input: Held, exponent: Any) -> Held:
    if not isinstance(exponent, Real) or exponent != 2:
        raise CannotLower(f"it takes the power {exponent}; only squares can be")
    return _square(builder, input)


@rule(torch.square, "square")
def _square(builder: Builder, input: Held) -> Held:
    return Held(builder.emit("multiply", [input.value, input.value]), input.shape)


def fixed_or_tensor(constant: Any) -> Any:
    """A constant of the network."""
    return constant if isinstance(constant, Tensor) else fixed(constant, "number")


def _of_two(builder: Builder, op: str, first: Held, second: Held) -> Held:
    if first.shape == second.shape:
        return Held(builder.emit(op, builder.together([first, second])), first.shape)
    is_gate = [_is_gate(*pair) for pair in ((second, first), (first, second))]
    if op != "multiply" or not any(is_gate):
        raise CannotLower(
            f"it takes {first.shape} and {second.shape}; both must have one shape, or a product "
            "one number for each channel"
        )
    whole, gate = (first, second) if is_gate[0] else (second, first)
    return Held(builder.emit(op, [builder.map(whole), builder.map(gate)]), whole.shape)


def _is_gate(gate: Held, whole: Held) -> bool:
    return len(whole.shape) == 4 and gate.shape == (*whole.shape[:2], 1, 1)


def _tensor_and_constant(first: Any, second: Any) -> tuple[Held, Any]:
    """One tensor of the network, and a number for each of its channels or one for all."""
    x, constant = (first, second) if isinstance(first, Held) else (second, first)
    constant = fixed_or_tensor(constant)
    if isinstance(constant, Tensor) and constant.numel() > 1:
        shape = (1,) * (len(x.shape) - constant.ndim) + tuple(constant.shape)
        if shape != (1, x.shape[1], *[1] * (len(x.shape) - 2)):
            raise CannotLower(
                f"it takes {x.shape} and a constant {tuple(constant.shape)}, which is not one "
                "number for each channel"
            )
    return x, constant


# Shapes


@rule(
    torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, "flatten", "reshape", "view",
    "squeeze", "squeeze_", "unsqueeze", "unsqueeze_", "reshape_as", "view_as", "unflatten",
    torch.unflatten,
)  # fmt: skip
def reshape(builder: Builder, input: Held, *shape: Any, **options: Any) -> Held:
    """Anything that leaves the order of numbers."""
    return builder.reshaped(input)


@rule(torch.mean, "mean")
def _mean(builder: Builder, input: Held, dim: Any = None, keepdim: bool = False) -> Held:
    return _over_pixels(builder, input, dim, "average")


@rule(torch.amax, "amax")
def _largest(builder: Builder, input: Held, dim: Any = (), keepdim: bool = False) -> Held:
    return _over_pixels(builder, input, dim, "max")


def _over_pixels(builder: Builder, x: Held, dim: Any, kind: str) -> Held:
    """Global pooling; the call's own result says whether the dimensions stay."""
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    places = sorted(d % len(x.shape) for d in dims)
    shape = builder.shapes[x.value]
    is_over_all = places == list(range(2, len(x.shape))) and x.shape[:2] == shape[:2]
    if len(shape) != 4 or not is_over_all or not places:
        raise CannotLower(f"it works over {dim} of {x.shape}; over all pixels of a map it can be")
    settings = {"kind": kind, "size": [1, 1]}
    return builder.reshaped(Held(builder.emit("adaptive_pool", [x.value], settings), x.shape))


@rule(torch.cat, torch.concat, torch.concatenate)
def _concatenate(builder: Builder, tensors: Sequence[Any], dim: int = 0) -> Held:
    if not all(isinstance(x, Held) for x in tensors):
        raise CannotLower("it joins the network's tensors with a constant")
    _require_channels(tensors[0], dim)
    return builder.held(builder.emit("concat", [builder.plain(x) for x in tensors]))


@rule(torch.chunk, "chunk")
def _chunk(builder: Builder, input: Held, chunks: int, dim: int = 0) -> tuple[Held, ...]:
    _require_channels(input, dim)
    return _split(builder, input, -(-input.shape[1] // chunks), dim)


@rule(torch.split, "split")
def _split(builder: Builder, input: Held, split_size: Any, dim: int = 0) -> tuple[Held, ...]:
    _require_channels(input, dim)
    channels, value = input.shape[1], builder.plain(input)
    if isinstance(split_size, int):
        sizes = [min(split_size, channels - at) for at in range(0, channels, split_size)]
    else:
        sizes = [int(size) for size in split_size]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return tuple(
        builder.held(_slice(builder, value, 1, slice(start, start + size)))
        for start, size in zip(starts, sizes, strict=True)
    )


@rule(torch.narrow, "narrow")
def _narrow(builder: Builder, input: Held, dim: int, start: Any, length: Any) -> Held:
    stop = fixed(start, "start") + fixed(length, "length")
    places = slice(fixed(start, "start"), stop)
    return builder.held(_slice(builder, builder.plain(input), dim % len(input.shape), places))


@rule(operator.getitem)
def _get_item(builder: Builder, input: Any, index: Any) -> Any:
    if isinstance(input, tuple):  # of chunk or split
        return input[index]
    value = builder.plain(input)
    for axis, place in _places(index, len(input.shape)):
        value = _slice(builder, value, axis, place)
    return builder.reshaped(builder.held(value))


def _places(index: Any, ndim: int) -> list[tuple[int, Any]]:
    """Which slice of which axis."""
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    parts = [part for part in parts if part is not None]  # a dimension of one number moves none
    if any(isinstance(part, (Held, Tensor)) for part in parts):
        raise CannotLower("it takes other places than slices")
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    return [(axis, part) for axis, part in enumerate(parts) if part != slice(None)]


def _slice(builder: Builder, value: int, axis: int, place: Any) -> int:
    """A slice of one axis; a single place is one too."""
    size = builder.shapes[value][axis]
    if isinstance(place, int):
        place = place if axis == 1 else fixed(place, "place")
        place = slice(place, None if place == -1 else place + 1)
    if axis == 1:  # no image changes it
        start, end, step = place.indices(size)
        stop = None if place.stop is None else end  # a flattened map may be longer than this one
    else:
        start = fixed(place.start or 0, "start")
        stop = None if place.stop is None else fixed(place.stop, "end")
        step = fixed(place.step or 1, "step")
    if axis == 0 and (start, stop, step) != (0, None, 1):
        raise CannotLower("it takes a part of the batch")
    if start < 0 or (stop is not None and stop < 0) or step < 1:
        raise CannotLower("it counts pixels from the end, which depends on the size of the image")
    if (start, step) == (0, 1) and (stop is None or (axis == 1 and stop == size)):
        return value
    settings = {"axis": axis, "start": start, "stop": stop, "step": step}
    return builder.emit("slice", [value], settings)


@rule(F.pad)
def pad(
    builder: Builder, input: Held, pad: Sequence[Any], mode: str = "constant", value: Any = None
) -> Held:
    """Constants around a map, or before and after its channels."""
    sides = [fixed(side, "padding") for side in pad] + [0] * (6 - len(pad))
    if len(input.shape) == 2:  # the last dimension comes first
        sides = [0, 0, 0, 0, *sides[:2]] if len(pad) == 2 else [-1]
    if mode != "constant" or min(sides) < 0 or len(sides) > 6:
        raise CannotLower(f"it pads by {tuple(pad)} in mode {mode!r}; constants around can be")
    left, right, top, bottom, before, after = sides
    if not any(sides):
        return input
    settings = {
        "padding": [top, bottom, left, right, before, after],
        "value": float(fixed(value or 0.0, "value")),
    }
    return builder.held(builder.emit("pad", [builder.plain(input)], settings))


# Pooling and resampling


@rule(F.max_pool2d, torch.max_pool2d)
def max_pool2d(
    builder: Builder,
    input: Held,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Held:
    """Max pooling."""
    if return_indices:
        raise CannotLower("it also gives the places of the largest numbers")
    more = {"dilation": pair(dilation, "dilation")}
    return _pool(builder, input, "max", (kernel_size, stride, padding, ceil_mode), more)


@rule(F.avg_pool2d)
def avg_pool2d(
    builder: Builder,
    input: Held,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Held:
    """Average pooling."""
    if divisor_override is not None:
        raise CannotLower("it divides by another number than that of the pixels")
    more = {"count_padding": bool(count_include_pad)}
    return _pool(builder, input, "average", (kernel_size, stride, padding, ceil_mode), more)


def _pool(
    builder: Builder, input: Held, kind: str, geometry: tuple[Any, ...], more: dict[str, Any]
) -> Held:
    kernel, stride, padding, ceil = geometry
    value = builder.map(input)
    if _is_whole_image(kernel, input):
        whole = {"kind": kind, "size": [1, 1]}
        return builder.held(builder.emit("adaptive_pool", [value], whole))
    vertical, horizontal = pair(padding, "padding")
    settings: dict[str, Any] = {
        "kind": kind,
        "kernel": pair(kernel, "kernel"),
        "stride": pair(stride or kernel, "stride"),
        "padding": [vertical, vertical, horizontal, horizontal],
        "ceil": bool(ceil),
        **more,
    }
    return builder.held(builder.emit("pool", [value], settings))


def _is_whole_image(kernel: Any, x: Held) -> bool:
    sizes = kernel if isinstance(kernel, (tuple, list)) else (kernel, kernel)
    return tuple(sizes) == x.shape[2:] and all(isinstance(size, OfImage) for size in sizes)


@rule(F.adaptive_avg_pool2d)
def adaptive_avg_pool2d(builder: Builder, input: Held, output_size: Any) -> Held:
    """Average pooling to a size."""
    return _adaptive_pool(builder, input, "average", output_size)


@rule(F.adaptive_max_pool2d)
def adaptive_max_pool2d(
    builder: Builder, input: Held, output_size: Any, return_indices: bool = False
) -> Held:
    """Max pooling to a size."""
    if return_indices:
        raise CannotLower("it also gives the places of the largest numbers")
    return _adaptive_pool(builder, input, "max", output_size)


def _adaptive_pool(builder: Builder, input: Held, kind: str, output_size: Any) -> Held:
    settings = {"kind": kind, "size": pair(output_size, "output size")}
    return builder.held(builder.emit("adaptive_pool", [builder.map(input)], settings))


@rule(F.interpolate)
def interpolate(
    builder: Builder,
    input: Held,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Held:
    """Resampling by a factor or to a size."""
    value = builder.map(input)
    if mode not in ("nearest", "bilinear") or antialias:
        raise CannotLower(f"it resamples in mode {mode!r}; 'nearest' and 'bilinear' can be")
    settings: dict[str, Any] = {"kind": mode, "align_corners": bool(align_corners)}
    if size is not None:
        settings |= _size_or_factor(size, input)
    else:
        settings["factor"] = [float(factor) for factor in pair(scale_factor, "factor")]
        if recompute_scale_factor and any(factor % 1 for factor in settings["factor"]):
            raise CannotLower("it computes its factor again from the size of the image")
    return builder.held(builder.emit("upsample", [value], settings))


def _size_or_factor(size: Any, x: Held) -> dict[str, Any]:
    """A size that depends on the image is a factor, where it is a whole one."""
    sizes = list(size) if isinstance(size, (tuple, list)) else [size, size]
    if not any(isinstance(n, OfImage) for n in sizes):
        return {"size": pair(sizes, "size")}
    if any(n % own for n, own in zip(sizes, x.shape[2:], strict=True)):
        raise CannotLower("its size depends on the size of the image, and is no multiple of it")
    return {"factor": [float(n // own) for n, own in zip(sizes, x.shape[2:], strict=True)]}


# Layers


@rule(F.linear)
def linear(builder: Builder, input: Held, weight: Any, bias: Tensor | None = None) -> Held:
    """A matrix, packed or float, times a vector."""
    _require_constant(weight, bias)
    held = {"weight": weight, **_bias(bias)}
    value = builder.emit("linear", [builder.vector(input)], held=held)
    return builder.held(value)


@rule(F.conv2d, torch.conv2d)
def conv2d(
    builder: Builder,
    input: Held,
    weight: Any,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Held:
    """A convolution; ``padding`` may also be [top, bottom, left, right]."""
    _require_constant(weight, bias)
    dilation = pair(dilation, "dilation")
    settings = conv_settings(
        stride=pair(stride, "stride"),
        padding=_sides(padding, dilation, weight.shape[2:]),
        dilation=dilation,
        groups=groups,
    )
    held = {"weight": weight, **_bias(bias)}
    return builder.held(builder.emit("conv", [builder.map(input)], settings, held))


def _sides(padding: Any, dilation: Sequence[int], kernel: Sequence[int]) -> list[int]:
    if isinstance(padding, (tuple, list)) and len(padding) == 4:
        return [fixed(side, "padding") for side in padding]
    if padding == "same":  # with a stride of 1 only, so that it does not depend on the image
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return [side for total in totals for side in (total // 2, total - total // 2)]
    vertical, horizontal = pair(0 if padding == "valid" else padding, "padding")
    return [vertical, vertical, horizontal, horizontal]


def _bias(bias: Tensor | None) -> dict[str, Tensor]:
    return {} if bias is None else {"bias": bias.detach()}


def _require_constant(*parameters: Any) -> None:
    if any(isinstance(parameter, Held) for parameter in parameters):
        raise CannotLower("its weight is computed from the image")


@rule(F.batch_norm, torch.batch_norm)
def batch_norm(
    builder: Builder,
    input: Held,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Held:
    """Batch normalization with the statistics of training."""
    if training or running_mean is None or running_var is None:
        raise CannotLower("it normalizes by the statistics of the batch that it gets")
    if len(input.shape) not in (2, 4):
        raise CannotLower(f"it takes maps (N, C, H, W) or vectors (N, F), and gets {input.shape}")
    factor = (running_var.double() + eps).rsqrt()
    factor = factor if weight is None else weight.double() * factor
    shift = -running_mean.double() * factor
    return builder.affine(input, factor, shift if bias is None else shift + bias.double())
