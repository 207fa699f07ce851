"""The calls that a model makes for an example, and what each of them gives.

torch.fx records them, and every call is also carried out on the example: so its shape is known.
Sizes of images stay open where the model's code allows it. Where it does not, as in
``if x.shape[2] > 7``, they are those of the example.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryrelax.export.program import Layout
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.quantizers.quantizable_layers import COMPILED, unwrapped

VALUE, DEPENDS = "value", "depends"  # what is noted of a node: what it gave; whether inputs matter
PLACEHOLDER: Any = fx.PH  # type: ignore[attr-defined]
_ROOT = "network"
_NOT_OPEN = ("dtype", "device", "layout", "ndim", "requires_grad", "is_cuda", "is_sparse")


class OfImage:
    """Marks a number that another image, or another number of images, would change."""


class SizeOfImage(int, OfImage):
    """A whole number of which that is so."""


class RatioOfImage(float, OfImage):
    """A fraction of which that is so."""


class CallGraph:
    """The calls of a model, in order.

    Args:
        network: on the CPU and in evaluation mode.
        examples: what it takes.

    Attributes:
        nodes: of ``torch.fx``; the first are the inputs, the last is the output.
        layout: whether the model gives one tensor or several.

    Raises:
        ValueError: torch.fx cannot follow the model's code, or it gives other than tensors.
    """

    def __init__(self, network: nn.Module, examples: Sequence[Tensor]) -> None:
        for parent in list(network.modules()):
            for name, child in parent.named_children():
                if COMPILED in child._modules:  # a wrapper that would compile what is traced
                    setattr(parent, name, unwrapped(child))
        self.root = _TakesATuple(network)
        try:
            tracer, graph = _traced(_Tracer, self.root, examples)
        except fx.proxy.TraceError:  # the code asks for a size: trace again with those that it has
            tracer, graph = self._traced_with_sizes(examples)
        except _OtherOutputs:
            raise
        except Exception as error:  # the model's own code runs: anything can come out of it
            raise self._untraceable(error) from error
        self.nodes = list(graph.nodes)
        self.layout: Layout = self.root.layout
        self._scopes = tracer.node_name_to_scope

    def _traced_with_sizes(self, examples: Sequence[Tensor]) -> tuple[fx.Tracer, fx.Graph]:
        try:
            return _traced(_TracerWithSizes, self.root, examples)
        except _OtherOutputs:
            raise
        except Exception as error:
            raise self._untraceable(error) from error

    def _untraceable(self, error: Exception) -> ValueError:
        reason = " ".join(str(error).split())[:300]
        return ValueError(
            f"export_native: torch.fx cannot trace {type(self.root.network).__name__} "
            f"({type(error).__name__}: {reason}); its code must not depend on what tensors hold"
        )

    def module(self, node: fx.Node) -> nn.Module | None:
        """The module that a node calls, if it calls one."""
        return self.root.get_submodule(str(node.target)) if node.op == "call_module" else None

    def place(self, node: fx.Node) -> str:
        """The path of the module that a node calls, or of the one whose code makes the call."""
        path = str(node.target) if node.op == "call_module" else self._scopes[node.name][0]
        return path.removeprefix(_ROOT).removeprefix(".")

    def value(self, node: fx.Node) -> Any:
        """What the node gave for the example; numbers that depend on it are marked."""
        value = _value(self.root, node)
        return _marked(value) if node.meta.get(DEPENDS, False) else value


class _OtherOutputs(ValueError):
    """A model gives what is no tensor and no tuple of them."""


class _TakesATuple(nn.Module):
    layout: Layout = "single"

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Sequence[Tensor]) -> Any:
        given = self.network(*inputs)
        if isinstance(given, fx.Proxy):
            self.layout = "single"
        elif isinstance(given, (tuple, list)) and all(isinstance(x, fx.Proxy) for x in given):
            self.layout = "tuple"
        else:
            raise _OtherOutputs(
                f"export_native: {type(self.network).__name__} gives a {type(given).__name__} "
                "with other parts than tensors of its input; have it give a tensor or a tuple"
            )
        return given


def _traced(
    tracer_type: type[_Tracer], root: nn.Module, examples: Sequence[Tensor]
) -> tuple[fx.Tracer, fx.Graph]:
    tracer = tracer_type(examples)
    with torch.no_grad():
        graph = tracer.trace(root, concrete_args={"inputs": (PLACEHOLDER,) * len(examples)})
    return tracer, graph


class _Proxy(fx.Proxy):
    """Knows what the sizes of images do not change; and that ``x += 1`` writes to x."""

    tracer: fx.Tracer

    def __getattr__(self, name: str) -> Any:
        value = _value(self.tracer.root, self.node)
        if isinstance(value, Tensor) and name in _NOT_OPEN:
            return getattr(value, name)
        return super().__getattr__(name)

    def dim(self) -> Any:
        return self.ndim

    def __iadd__(self, other: Any) -> Any:
        return self._in_place(operator.iadd, other)

    def __isub__(self, other: Any) -> Any:
        return self._in_place(operator.isub, other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place(operator.imul, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place(operator.itruediv, other)

    def _in_place(self, function: Callable[..., Any], other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})


class _ProxyWithSizes(_Proxy):
    @property
    def shape(self) -> Any:
        shape = _value(self.tracer.root, self.node).shape
        return tuple(n if index == 1 else SizeOfImage(n) for index, n in enumerate(shape))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> Any:
        return SizeOfImage(_value(self.tracer.root, self.node).numel())

    def __len__(self) -> int:
        return len(_value(self.tracer.root, self.node))


class _Tracer(fx.Tracer):
    """Looks into no packed layer, and carries out every call."""

    proxy_type: type[_Proxy] = _Proxy

    def __init__(self, examples: Sequence[Tensor]) -> None:
        super().__init__(param_shapes_constant=True)
        self._examples = [example.clone() for example in examples]  # calls may write to them
        self._is_evaluating = False
        self._forward: Callable[..., Any] | None = None

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, PackedLayer) or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return self.proxy_type(node, self)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if self._is_evaluating:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if self._is_evaluating:
            return forward(*args, **kwargs)
        self._forward = forward
        return super().call_module(m, forward, args, kwargs)

    def create_node(self, kind: str, target: Any, *others: Any, **more: Any) -> fx.Node:
        node = super().create_node(kind, target, *others, **more)
        if kind == "placeholder":
            node.meta[VALUE], node.meta[DEPENDS] = self._examples.pop(0), True
        elif kind.startswith("call"):
            node.meta[VALUE] = self._carried_out(node)
            inputs = any(n.meta.get(DEPENDS, False) for n in node.all_input_nodes)
            node.meta[DEPENDS] = inputs and not self._counts_channels(node)
        return node

    def _carried_out(self, node: fx.Node) -> Any:
        args, kwargs = fx.node.map_arg(
            (node.args, node.kwargs), lambda argument: _value(self.root, argument)
        )
        self._is_evaluating = True
        try:
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            function = self._forward if node.op == "call_module" else node.target
            assert callable(function)
            return function(*args, **kwargs)
        finally:
            self._is_evaluating = False

    def _counts_channels(self, node: fx.Node) -> bool:
        """Whether it is the second size of a tensor, which no image changes."""
        if node.target is operator.getitem:
            sizes, index = _value(self.root, node.args[0]), node.args[1]
        elif node.target == "size" and len(node.args) == 2:
            sizes, index = _value(self.root, node.args[0]).shape, node.args[1]
        else:
            return False
        is_index = isinstance(sizes, torch.Size) and isinstance(index, int)
        return is_index and len(sizes) > 1 and index in (1, 1 - len(sizes))


class _TracerWithSizes(_Tracer):
    proxy_type = _ProxyWithSizes


def _marked(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_marked(part) for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return SizeOfImage(value)
    return RatioOfImage(value) if isinstance(value, float) else value


def _value(root: Any, node: Any) -> Any:
    """What a node gave; that of a parameter, buffer or constant is what the network holds."""
    if VALUE in node.meta:
        return node.meta[VALUE]
    owner, _, name = str(node.target).rpartition(".")
    module = root.get_submodule(owner)
    # Not getattr, with which torch.fx gives a proxy while it traces.
    for held in (module._parameters, module._buffers, vars(module)):
        if name in held:
            return held[name]
    raise ValueError(f"{node.target!r} is no tensor of the network")
