"""What a kernel works for, told from its name."""

import re
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules


class Kind(StrEnum):
    """The parts of a training step."""

    PRODUCTS = "convolutions and matrix products"
    COMPILED = "compiled elementwise and normalisation"
    UPDATE = "optimizer and relaxation"
    COPIES = "memory copies and sets"
    OTHER = "other"


# The first that is found decides: what torch.compile makes is named after all that it has fused.
_PATTERNS = (
    (Kind.COPIES, re.compile(r"^mem(cpy|set)\b")),
    (Kind.PRODUCTS, re.compile(r"^triton_tem_")),
    (Kind.COMPILED, re.compile(r"^triton_")),
    (Kind.UPDATE, re.compile(r"multi_tensor_apply|fusedsgd")),
    (
        Kind.PRODUCTS,
        re.compile(
            r"cudnn|cutlass|xmma|gemm|gemv|nvjet|wgrad|dgrad|fprop|splitk|convolve|implicit_conv"
            r"|few_channels"
        ),
    ),
)


def kind_of(name: str) -> Kind:
    """The part of the step that a kernel, copy or memset of this name belongs to."""
    if name in relaxation_kernels():
        return Kind.UPDATE
    found = (kind for kind, pattern in _PATTERNS if pattern.search(name.lower()))
    return next(found, Kind.OTHER)


@cache
def relaxation_kernels() -> frozenset[str]:
    """The names of all Triton functions of the library; its kernels are among them."""
    package = import_module("binaryrelax.kernels")
    modules = [
        import_module(f"{package.__name__}.{found.name}")
        for found in iter_modules(package.__path__)
    ]
    functions = [value for module in modules for value in vars(module).values()]
    return frozenset(f.__name__ for f in functions if hasattr(f, "arg_names"))
