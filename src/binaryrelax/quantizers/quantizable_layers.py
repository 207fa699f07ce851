"""The layers of a model that hold a weight which can be quantized, and what keeps one from packing.

A packed layer does what the plain layer of torch does, no more. So whoever selects weights can say
before training, and not after it, which layers will not pack. Names are those of a model that
neither DistributedDataParallel nor ``torch.compile`` has wrapped.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from binaryrelax.quantizers.sharded_weights import is_dtensor

COMPILED = "_orig_mod"  # what torch.compile's wrapper of a module calls it
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)
PACKABLE_LAYERS = (*LAYERS, nn.Embedding)  # an embedding may share the weight of a Linear layer
# Subclasses with a forward of their own of which it is known what it does.
KNOWN_SUBCLASSES = ("timm.layers.linear.Linear", "timm.layers.conv2d_same.Conv2dSame")
_METHODS = ("forward", "_conv_forward", "_output_padding", "__call__")


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside of wrappers, whose names of layers have no prefix."""
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        inner = model.module
    else:  # by its attribute: importing torch.compile's class would take a second
        inner = getattr(model, COMPILED, None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else model


def plain_name(name: str) -> str:
    """The name of a module or tensor as it is in a model of which no part is compiled."""
    return ".".join(part for part in name.split(".") if part != COMPILED)


def type_name(module: nn.Module) -> str:
    """The full name of its class, such as "torch.nn.Linear" or "timm.layers.linear.Linear"."""
    cls = type(module)
    is_torchs_own = getattr(nn, cls.__name__, None) is cls
    return f"{'torch.nn' if is_torchs_own else cls.__module__}.{cls.__qualname__}"


def obstacles(model: nn.Module, weights: Container[Tensor]) -> dict[str, str]:
    """Why some of the weights cannot be packed, by the name of the layer that has them.

    A tied weight is looked at in every layer that has it: packed in one and float in another, it
    would be stored twice.
    """
    found = {}
    for name, module in model.named_modules():
        for part, parameter in module._parameters.items():
            if parameter is None or parameter not in weights:
                continue
            reason = obstacle(module) if part == "weight" else _foreign(f"its {part!r}")
            if reason is not None:
                found[plain_name(name)] = f"is a {type_name(module)}: {reason}"
    return found


def obstacle(layer: nn.Module) -> str | None:
    """Why no packed layer does what this one does, in words; None if one does.

    A subclass of Linear or Conv will do, such as the output projection of nn.MultiheadAttention,
    unless it computes its output in a way of its own or has more than a weight and a bias.
    """
    plain = plain_type(layer)
    if plain is None:
        return _foreign("its weight")
    return next(_reasons(layer, plain), None)


def plain_type(layer: nn.Module) -> type[nn.Module] | None:
    """The layer of torch that it is or derives from, of those that can be packed."""
    return next((plain for plain in PACKABLE_LAYERS if isinstance(layer, plain)), None)


def _reasons(layer: nn.Module, plain: type[nn.Module]) -> Iterator[str]:
    if "bias" not in layer._parameters and plain is not nn.Embedding:
        yield (
            "its bias is computed from another parameter; make it permanent first, with "
            "torch.nn.utils.prune.remove or remove_parametrizations"
        )
    patched = [method for method in _METHODS if method in vars(layer)]
    if patched:
        yield f"somebody has replaced {patched[0]!r} of this very layer"
    if type_name(layer) not in KNOWN_SUBCLASSES:
        own = [m for m in _METHODS if getattr(type(layer), m, None) is not getattr(plain, m, None)]
        if own:
            yield f"it has a {own[0]!r} of its own, so what it does with its weight is not known"
    extra = [*layer._modules, *layer._buffers, *(layer._parameters.keys() - {"weight", "bias"})]
    if extra:
        yield f"it also holds {extra[0]!r}, for which a packed layer has no place"
    if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
        yield "its max_norm rewrites the weight whenever it is used"


def _foreign(what: str) -> str:
    kinds = ", ".join(plain.__name__ for plain in PACKABLE_LAYERS)
    return f"{what} cannot be packed, only the weights of {kinds} can"


def overlaps(tensors: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Pairs of tensors that share memory; those that processes share, and empty ones, do not."""
    plain = [t for t in tensors if t.numel() and not is_dtensor(t) and not t.is_meta]
    ordered = sorted(plain, key=Tensor.data_ptr)
    return [(a, b) for a, b in pairwise(ordered) if a.device == b.device and b.data_ptr() < _end(a)]


def _end(tensor: Tensor) -> int:
    """The address behind the tensor's last entry."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    entries = 1 + sum((size - 1) * abs(stride) for size, stride in sizes)
    return tensor.data_ptr() + entries * tensor.element_size()
