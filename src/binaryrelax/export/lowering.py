"""From the calls of a model to a program of the native runtime."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx, nn

from binaryrelax.export.builder import Builder, CannotLower, Held
from binaryrelax.export.call_graph import DEPENDS, CallGraph
from binaryrelax.export.lowered_functions import BY_NAME, FUNCTIONS, METHODS, Rule, called
from binaryrelax.export.lowered_modules import lowered_module
from binaryrelax.export.program import Layout, Program
from binaryrelax.quantizers.quantizable_layers import type_name

_IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv)
_EXPANDING = ("expand", "expand_as", "broadcast_to")


def lowered(network: nn.Module, examples: Sequence[Tensor]) -> Program:
    """The program of a model, call by call.

    Args:
        network: on the CPU and in evaluation mode.
        examples: what it takes, all with the same number of rows.

    Raises:
        ValueError: a call cannot be lowered; the message names it and says why.
    """
    graph = CallGraph(network, examples)
    return _Lowering(graph, [tuple(example.shape) for example in examples]).program()


class _Lowering:
    def __init__(self, graph: CallGraph, inputs: list[tuple[int, ...]]) -> None:
        self.graph = graph
        self.builder = Builder(inputs)
        self.lowered: dict[fx.Node, Any] = {}  # what each call has become

    def program(self) -> Program:
        needed, inputs = _needed(self.graph), 0
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.lowered[node] = self.builder.held(inputs)
                inputs += 1
            elif node in needed and node.op.startswith("call") and self._gives_tensors(node):
                self._lower(node)
        outputs, layout = self._outputs()
        builder = self.builder
        shapes = tuple(shape[1:] for shape in builder.shapes[: builder.num_inputs])
        return Program(shapes, tuple(builder.operations), outputs, layout)

    def _gives_tensors(self, node: fx.Node) -> bool:
        value = self.graph.value(node)
        parts = value if isinstance(value, (tuple, list)) else (value,)
        return node.meta[DEPENDS] and any(isinstance(part, Tensor) for part in parts)

    def _lower(self, node: fx.Node) -> None:
        value = self.graph.value(node)
        self.builder.name = _name(self.graph, node)
        self.builder.result = tuple(value.shape) if isinstance(value, Tensor) else ()
        try:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._argument)
            found = self._called(node, args, kwargs)
            if node.target not in _EXPANDING:
                _check_shapes(found, value)
        except CannotLower as error:
            raise ValueError(
                f"export_native: {_described(self.graph, node)} cannot be lowered: {error}"
            ) from None
        self.lowered[node] = found
        if is_in_place(self.graph, node):
            self.lowered[node.args[0]] = found  # type: ignore[index]

    def _argument(self, node: fx.Node) -> Any:
        return self.lowered[node] if node in self.lowered else self.graph.value(node)

    def _called(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        module = self.graph.module(node)
        if module is not None:
            return lowered_module(
                self.builder, self.graph.place(node), module, *args, *kwargs.values()
            )
        rule = _rule(node)
        if rule is None:
            raise CannotLower("the runtime has no operation for it")
        return called(rule, self.builder, *args, **kwargs)

    def _outputs(self) -> tuple[tuple[int, ...], Layout]:
        given = [self.lowered.get(node) for node in self.graph.nodes[-1].args[0]]
        layout = self.graph.layout
        if layout == "single" and isinstance(given[0], tuple):  # what chunk gave
            given, layout = list(given[0]), "tuple"
        values = []
        for position, held in enumerate(given):
            self.builder.name = f"output {position}"
            try:
                values.append(self._output(held))
            except CannotLower as error:
                raise ValueError(
                    f"export_native: {self.builder.name} cannot be lowered: {error}"
                ) from None
        return tuple(values), layout

    def _output(self, held: Any) -> int:
        if not isinstance(held, Held):
            raise CannotLower("it is no tensor made of the inputs")
        if len(held.shape) not in (2, 4):
            raise CannotLower(f"it has the shape {held.shape}, which is no map and no vector")
        value = self.builder.plain(held)
        if value < self.builder.num_inputs:
            raise CannotLower("it is an input as it came")
        return value


def _rule(node: fx.Node) -> Rule | None:
    if isinstance(node.target, str):
        return METHODS.get(node.target)
    module, name = (getattr(node.target, part, "") for part in ("__module__", "__name__"))
    return FUNCTIONS.get(node.target) or BY_NAME.get(f"{module}.{name}")


def _needed(graph: CallGraph) -> set[fx.Node]:
    """The calls that the outputs are made of."""
    needed = {graph.nodes[-1]}
    for node in reversed(graph.nodes):
        writes = is_in_place(graph, node) and node.args[0] in needed
        if node in needed or writes:
            needed.update((node, *node.all_input_nodes))
    return needed


def is_in_place(graph: CallGraph, node: fx.Node) -> bool:
    """Whether a call writes to its first argument."""
    if not node.args or not isinstance(node.args[0], fx.Node):
        return False
    name = str(getattr(node.target, "__name__", node.target))
    module = graph.module(node)
    return (
        node.target in _IN_PLACE
        or bool(node.kwargs.get("inplace", False))
        or (module is None and name.endswith("_") and not name.endswith("__"))
        or bool(getattr(module, "inplace", False))
    )


def _check_shapes(found: Any, value: Any) -> None:
    """What a rule gives has the shapes that the call gave."""
    if isinstance(found, tuple):
        for part, tensor in zip(found, value, strict=True):
            _check_shapes(part, tensor)
    elif found.shape != tuple(value.shape):
        raise CannotLower(f"it gives {tuple(value.shape)}, its operation would give {found.shape}")


def _name(graph: CallGraph, node: fx.Node) -> str:
    """For people: the path of a module, or of what makes the call with the name of the function."""
    place = graph.place(node)
    if node.op == "call_module":
        return place
    function = str(getattr(node.target, "__name__", node.target)).strip("_")
    function = node.name.rstrip("_0123456789") if function == "fn" else function
    return f"{place}.{function}" if place else function


def _described(graph: CallGraph, node: fx.Node) -> str:
    module = graph.module(node)
    if module is not None:
        return f"layer {graph.place(node)!r}, a {type_name(module)},"
    return f"call {_name(graph, node)!r}"
