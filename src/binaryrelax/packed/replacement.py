"""Modules of a network: their names, and how one takes the place of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MethodType
from typing import Any

from torch import Tensor, nn

from binaryrelax.quantizers.quantizable_layers import COMPILED, plain_name

_HOOKS = (
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_backward_pre_hooks", "_backward_hooks",
)  # fmt: skip

_REGISTERED = ("_parameters", "_buffers", "_modules")
_DEPTH = 4  # how deep containers are looked into


def name_of_place(name: str) -> str:
    """The name under which ``replace_everywhere`` puts what takes the place of a module."""
    return name.removesuffix(f".{COMPILED}")


def modules_by_name(model: nn.Module) -> dict[str, nn.Module]:
    """Every module under every name that it has; of a compiled one, what the wrapper holds."""
    # A wrapper comes before what it holds, and has the same plain name.
    return {plain_name(n): m for n, m in model.named_modules(remove_duplicate=False)}


def hidden_references(model: nn.Module, wanted: Iterable[nn.Module | Tensor]) -> Iterator[str]:
    """Where the model keeps one of these so that nobody could put a packed layer there, in words.

    As a bound method, say, or a weight in a list: a network that was loaded would go on with the
    weights that it was built with. Layers in plain containers are replaced, see below.
    """
    looked_for = {id(thing) for thing in wanted}
    for name, _, attribute, value in _plain_attributes(model):
        if any(id(thing) in looked_for for thing in _out_of_reach(value)):
            where = f"{name}.{attribute}" if name else attribute
            yield f"{where!r} holds a layer or its weight outside of torch's sight"


def replace_in_containers(model: nn.Module, replaced: Mapping[nn.Module, nn.Module]) -> None:
    """Puts modules into the places of others in plain attributes, lists, tuples and dicts."""
    for _, module, attribute, value in list(_plain_attributes(model)):
        new = _with_replaced(value, replaced)
        if new is not value:
            vars(module)[attribute] = new


def _plain_attributes(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Any]]:
    """What modules hold beside the places that torch knows of: module, its name, attribute."""
    for name, module in model.named_modules():
        if COMPILED in module._modules:  # the wrapper of a layer goes with it
            continue
        for attribute, value in vars(module).items():
            if attribute not in _REGISTERED and not attribute.endswith("_hooks"):
                yield plain_name(name), module, attribute, value


def _out_of_reach(value: Any, depth: int = 0) -> Iterator[Any]:
    """What an attribute holds that ``_with_replaced`` does not reach."""
    if isinstance(value, MethodType):
        yield value.__self__
    elif isinstance(value, partial):
        for part in (value.func, value.args, value.keywords):
            yield from _everything_in(part, depth)
    elif isinstance(value, (set, frozenset)):
        yield from value
    elif isinstance(value, Tensor):
        yield value
    elif depth < _DEPTH:
        for item in _items(value):
            yield from _out_of_reach(item, depth + 1)


def _everything_in(value: Any, depth: int) -> Iterator[Any]:
    yield value
    yield from _out_of_reach(value, depth)
    for item in _items(value) if depth < _DEPTH else ():
        yield from _everything_in(item, depth + 1)


def _items(value: Any) -> Iterable[Any]:
    if type(value) in (list, tuple):
        return list(value)
    return list(value.values()) if isinstance(value, dict) else []


def _with_replaced(value: Any, replaced: Mapping[nn.Module, nn.Module], depth: int = 0) -> Any:
    """The value with new modules in the places of old ones; lists and dicts stay the same."""
    if isinstance(value, nn.Module):
        return replaced.get(value, value)
    if depth == _DEPTH:
        return value
    if type(value) is list:
        value[:] = [_with_replaced(item, replaced, depth + 1) for item in value]
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            value[key] = _with_replaced(item, replaced, depth + 1)
    elif type(value) is tuple:
        items = tuple(_with_replaced(item, replaced, depth + 1) for item in value)
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


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
