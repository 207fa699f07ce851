"""The graph of a packed network, with the weights of its packed layers as inputs.

An exporter cannot fold, fuse or merge what it does not know. So the packed weights enter the graph
from outside, under their names, and each format then puts its own codes into their place.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from binaryrelax.export.accelerated_forward import AcceleratedForward
from binaryrelax.export.agreement import Probes, make_probes
from binaryrelax.export.weight_uses import Use, use_of
from binaryrelax.packed.layers import PackedConv2dSame
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.packed_weight import PackedWeight
from binaryrelax.packed.replacement import (
    name_of_place,
    replace_everywhere,
    replace_in_containers,
)
from binaryrelax.quantizers.quantizable_layers import plain_name, unwrapped

OPSET = 18  # of ONNX, December 2022: what the graphs need, and no newer


@dataclass(frozen=True)
class TracedWeight:
    """A weight that is an input of the graph.

    Args:
        name: of the input.
        weight: codes and scales.
        dtype: in which the layer multiplies it.
        use: what the graph does with it.
    """

    name: str
    weight: PackedWeight
    dtype: torch.dtype
    use: Use = "other"


@dataclass(frozen=True)
class TracedNetwork:
    """A graph and the inputs of it that packed weights have to replace.

    Args:
        graph: an ``onnx.ModelProto``; its inputs are those of the network, then the weights.
        weights: one per packed weight; layers that share a weight share it here too.
        probes: inputs and the outputs of the packed model, for a run time to repeat.
    """

    graph: Any
    weights: list[TracedWeight]
    probes: Probes


def trace(model: nn.Module, example_input: Tensor | tuple[Tensor, ...]) -> TracedNetwork:
    """The graph of a packed model, for any size of the first dimension of its inputs.

    Args:
        model: what ``pack`` or ``load_packed`` has returned; it stays as it is.
        example_input: what the model takes: a tensor, or several in a tuple. Rows become probes,
            and all sizes but the first are those that the graph will take.

    Raises:
        ValueError: no layer is packed, or torch cannot export the model.
    """
    examples = examples_of(example_input)
    whole = _WithWeightsAsInputs(copied(unwrapped(model)))
    layers = {n: m for n, m in whole.network.named_modules() if isinstance(m, PackedLayer)}
    if not layers:
        raise ValueError(
            f"export: no layer of {type(whole.network).__name__} is packed; "
            "pack(model, weights) first"
        )
    dtypes, num_outputs = _probe(whole.network, layers, examples)
    probes = probes_of(whole.network, examples, [*dtypes.values()])
    weights: dict[Any, TracedWeight] = {}
    twins: dict[nn.Module, nn.Module] = {}
    for name, layer in layers.items():
        dtype = dtypes.get(name, layer.format.dtype)
        weight_name = _joined(plain_name(name), "weight")
        traced = TracedWeight(weight_name, layer.packed_weight, dtype)
        memory = (layer.codes.data_ptr(), layer.scale.data_ptr(), layer.format, dtype)
        weights.setdefault(memory, traced)
        parameter = _joined(name_of_place(name), "weight")
        whole.index_of[parameter] = list(weights).index(memory)
        twins[layer] = _float_twin(layer, dtype)
        replace_everywhere(whole, layer, twins[layer])
    replace_in_containers(whole, twins)
    inputs = list(weights.values())
    graph = _export(whole, examples, inputs, num_outputs)
    used = [replace(weight, use=use_of(graph.graph, weight.name)) for weight in inputs]
    return TracedNetwork(graph, used, probes)


def copied(model: nn.Module) -> nn.Module:
    """A copy of the model, also of one that keeps results of its last run, as pruning does.

    Of a model that the native runtime runs, the copy runs its own code again.
    """
    kept = [value for module in model.modules() for value in vars(module).values()]
    computed = [value for value in kept if isinstance(value, Tensor) and not value.is_leaf]
    copy = deepcopy(model, {id(value): value.detach().clone() for value in computed})
    for module in copy.modules():
        if isinstance(vars(module).get("forward"), AcceleratedForward):
            del module.forward
    return copy


def probes_of(
    network: nn.Module, examples: tuple[Tensor, ...], dtypes: list[torch.dtype], **counts: Any
) -> Probes:
    """Rows like those of the example, and what the model makes of them.

    Raises:
        ValueError: the model takes no other number of rows.
    """
    try:
        return make_probes(network, examples, dtypes, **counts)
    except Exception as error:  # the model's own code runs: anything can come out of it
        raise ValueError(
            f"export: {type(network).__name__} takes the example and no other number of rows "
            f"({type(error).__name__}: {' '.join(str(error).split())[:300]}); the first dimension "
            "of every input is the batch"
        ) from error


class _WithWeightsAsInputs(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.index_of: dict[str, int] = {}  # parameter of the network -> weight that it gets
        self.cpu().eval()

    def forward(self, examples: tuple[Tensor, ...], weights: tuple[Tensor, ...]) -> Any:
        parameters = {name: weights[index] for name, index in self.index_of.items()}
        return functional_call(self.network, parameters, examples)


def _export(
    whole: _WithWeightsAsInputs,
    examples: tuple[Tensor, ...],
    weights: list[TracedWeight],
    num_outputs: int,
) -> Any:
    """The graph as torch's exporter makes it, with names as the network has them."""
    shapes = [(w.weight.format.shape, w.dtype) for w in weights]
    unread = tuple(torch.empty(shape, dtype=dtype, device="cpu") for shape, dtype in shapes)
    batch = torch.export.Dim("batch")
    try:
        with without_remarks():
            program = torch.onnx.export(
                whole,
                (examples, unread),
                input_names=[*_numbered("input", len(examples)), *(w.name for w in weights)],
                output_names=_numbered("output", num_outputs),
                opset_version=OPSET,
                dynamic_shapes=(tuple({0: batch} for _ in examples), tuple({} for _ in unread)),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the model's own code runs: anything can come out of it
        cause = error.__cause__ or error
        raise ValueError(
            f"export: torch cannot export {type(whole.network).__name__} for every batch size "
            f"({type(cause).__name__}: {' '.join(str(cause).split())[:300]}); torch.export.export "
            "with a dynamic first dimension shows where"
        ) from error
    assert program is not None  # dynamo=True returns one
    graph = program.model_proto
    _forget_sources(graph)
    for tensor in graph.graph.initializer:
        _rename(graph.graph, tensor, plain_name(tensor.name.removeprefix("network.")))
    return graph


def _forget_sources(graph: Any) -> None:
    """Removes what the exporter notes of the model's source code: stack traces, names of files."""
    inner = graph.graph
    for part in (graph, inner, *inner.node, *inner.input, *inner.output, *inner.value_info):
        del part.metadata_props[:]
        part.doc_string = ""
    for tensor in inner.initializer:
        del tensor.metadata_props[:]


def _rename(graph: Any, tensor: Any, name: str) -> None:
    for node in graph.node:
        for index, used in enumerate(node.input):
            if used == tensor.name:
                node.input[index] = name
    for info in graph.value_info:
        if info.name == tensor.name:
            info.name = name
    tensor.name = name


def _probe(
    network: nn.Module, layers: dict[str, PackedLayer], examples: tuple[Tensor, ...]
) -> tuple[dict[str, torch.dtype], int]:
    """The dtype of each packed layer's input, where it is called, and the number of outputs."""
    dtypes: dict[str, torch.dtype] = {}
    handles = [
        layer.register_forward_pre_hook(
            lambda layer, args, name=name: dtypes.__setitem__(name, layer.product_dtype(args[0]))
        )
        for name, layer in layers.items()
    ]
    with torch.no_grad():
        outputs = network(*examples)
    for handle in handles:
        handle.remove()
    return dtypes, len(tree_leaves(outputs))


def _float_twin(layer: PackedLayer, dtype: torch.dtype) -> Any:
    """The layer whose place the packed one had taken; its weight is not filled in."""
    options = {**layer.options(), "dtype": dtype}
    # Memory that is never written costs nothing: the weight comes from outside.
    twin: Any = nn.utils.skip_init(layer.PLAIN, **options)  # type: ignore[no-untyped-call]
    if layer.bias is not None:
        twin.bias = nn.Parameter(layer.bias.detach().to(dtype))
    if options.get("padding_mode") == "circular":  # an operator that ONNX has from opset 19 on only
        sides = list(twin._reversed_padding_repeated_twice)
        twin.padding, twin.padding_mode = (0,) * len(twin.kernel_size), "zeros"
        twin.register_forward_pre_hook(lambda _, inputs: (_padded_circularly(inputs[0], sides),))
    if isinstance(layer, PackedConv2dSame):
        twin.register_forward_pre_hook(lambda _, inputs: (layer.padded(inputs[0]),))
    return twin


def _padded_circularly(x: Tensor, sides: list[int]) -> Tensor:
    """``F.pad(x, sides, mode="circular")`` by slices of x."""
    for index, (before, after) in enumerate(zip(sides[::2], sides[1::2], strict=True)):
        dim = x.ndim - 1 - index
        end = x.narrow(dim, x.shape[dim] - before, before)
        x = torch.cat([end, x, x.narrow(dim, 0, after)], dim)
    return x


def examples_of(example_input: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The inputs, on the CPU, each with more than one row: torch takes a size of 1 for fixed."""
    given = example_input if isinstance(example_input, tuple) else (example_input,)
    for example in given:
        if not isinstance(example, Tensor) or example.ndim == 0 or len(example) == 0:
            raise ValueError(
                "export: example_input must be a tensor, or a tuple of tensors, with at least one "
                f"row, not {getattr(example, 'shape', type(example).__name__)}"
            )
    rows = [example.detach().cpu() for example in given]
    return tuple(torch.cat([row, row]) if len(row) == 1 else row for row in rows)


def _joined(module: str, parameter: str) -> str:
    return f"{module}.{parameter}" if module else parameter


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{index}" for index in range(count)]


@contextmanager
def without_remarks() -> Iterator[None]:
    """Keeps the exporter's remarks on itself and on what is not installed from the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
