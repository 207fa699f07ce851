"""Modules of a network: their names, and how one takes the place of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MethodType
from typing import Any

from torch import Tensor, nn

from binaryrelax.quantizers.wrappers import COMPILED, plain_name

_HOOKS = (
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_backward_pre_hooks", "_backward_hooks",
)  # fmt: skip

_REGISTERED = ("_parameters", "_buffers", "_modules")


def name_of_place(name: str) -> str:
    """The name under which ``replace_everywhere`` puts what takes the place of a module."""
    return name.removesuffix(f".{COMPILED}")


def modules_by_name(model: nn.Module) -> dict[str, nn.Module]:
    """Every module under every name that it has; of a compiled one, what the wrapper holds."""
    # A wrapper comes before what it holds, and has the same plain name.
    return {plain_name(n): m for n, m in model.named_modules(remove_duplicate=False)}


def hidden_references(model: nn.Module, wanted: Iterable[nn.Module | Tensor]) -> Iterator[str]:
    """Where the model keeps one of these beside the places that torch knows of, in words.

    In a plain list, say, or as a bound method: nobody would put a packed layer there, and a network
    that was loaded would go on with the weights that it was built with.
    """
    looked_for = {id(thing) for thing in wanted}
    for name, module in model.named_modules():
        if COMPILED in module._modules:  # the wrapper of a layer goes with it
            continue
        for attribute, value in vars(module).items():
            if attribute in _REGISTERED or attribute.endswith("_hooks"):
                continue
            if any(id(thing) in looked_for for thing in _held(value)):
                where = f"{plain_name(name)}.{attribute}" if name else attribute
                yield f"{where!r} holds a layer or its weight outside of torch's sight"


def _held(value: Any) -> Iterator[Any]:
    """What an attribute holds: itself, the object of a bound method, or what is in a container."""
    inner = [value]
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        inner = list(value)
    for thing in inner:
        yield thing.__self__ if isinstance(thing, MethodType) else thing


def replace_everywhere(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Puts a module into the place of another, under every name that it has, with its hooks.

    Where ``torch.compile`` wraps the old one itself, the wrapper goes too: it would go on calling
    what it was made for.
    """
    _take_over_hooks(new, old)
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):  # named_children gives each only once
            if child is None or name == COMPILED:  # not inside of the wrapper that goes
                continue
            if child._modules.get(COMPILED) is old:
                _add_hooks(new, child)
                setattr(parent, name, new)
            elif child is old:
                setattr(parent, name, new)


def _take_over_hooks(new: nn.Module, old: nn.Module) -> None:
    for kind in _HOOKS:
        hooks = getattr(old, kind)
        hooks.update(getattr(new, kind))
        setattr(new, kind, hooks)  # not a copy: handles that were given out remove from this one
    new._is_full_backward_hook = old._is_full_backward_hook


def _add_hooks(new: nn.Module, wrapper: nn.Module) -> None:
    for kind in _HOOKS:
        getattr(new, kind).update(getattr(wrapper, kind))
    first: Any = new._forward_pre_hooks
    for number in reversed(wrapper._forward_pre_hooks):  # the wrapper's come before the layer's
        first.move_to_end(number, last=False)
