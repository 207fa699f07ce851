"""Packed networks as ONNX files that hold codes, not floats."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryrelax.export.agreement import EIGHT_BITS, FLOAT_BITS, Probes
from binaryrelax.export.expansion import Array, Operators, as_array, expand, part_name
from binaryrelax.export.isolated_runtime import CannotRun, outputs_of
from binaryrelax.export.requirements import needed
from binaryrelax.export.tracing import TracedWeight, trace
from binaryrelax.export.weight_uses import linear_products, users
from binaryrelax.packed.atomic_writing import write_atomically
from binaryrelax.packed.bits import pack_bits
from binaryrelax.packed.packed_weight import BINARY, TERNARY, PackedWeight

# ONNX Runtime's product with 2-bit weights, com.microsoft::MatMulNBits.
MICROSOFT = "com.microsoft"
BLOCKS = (128, 64, 32)  # weights per scale: with others ONNX Runtime takes a hundred times longer
ZERO = 2  # the 2-bit code of level 0, when a node has no zero points of its own
INT8_ACTIVATIONS = 4  # the accuracy level with fast 2-bit kernels


def export_onnx(
    model: nn.Module,
    example_input: Tensor | tuple[Tensor, ...],
    path: str | os.PathLike[str],
    *,
    exact: bool = False,
) -> None:
    """Writes a packed model as an ONNX file, for any batch size.

    Binary and ternary Linear layers become ONNX Runtime's ``MatMulNBits`` with 2-bit weights, which
    rounds activations to 8 bits: outputs differ by about 1 % of the largest one. Every other packed
    weight stays packed in the file, and the graph expands it with standard operators; runtimes do
    that once, when they load it. Those outputs agree with the packed model's to float32 rounding.

    If onnxruntime is installed, it runs a few rows with its own settings before anything is
    written; they must agree with the packed model. Without it the file is written unchecked. Of
    models with inputs or outputs in bfloat16, which NumPy does not have, it is only loaded.

    Args:
        model: what ``pack`` or ``load_packed`` has returned; it stays as it is.
        example_input: what the model takes: a tensor, or several in a tuple. All sizes but the
            first are those that the exported network will take. Its rows are what ONNX Runtime
            runs.
        path: of the file, one for everything; replaced if it is there, and intact if writing fails.
        exact: expand the weights of Linear layers too, so that no activation is rounded. The file
            then needs no operator beyond ONNX's own, opset 18.

    Raises:
        ImportError: the extra ``binaryrelax[onnx]`` is not installed.
        ValueError: no layer is packed, torch cannot export the model, or ONNX Runtime cannot run
            the network or gives other outputs; nothing is written.

    Examples:
        >>> import onnxruntime, torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, export_onnx, pack, select_weights
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> images = torch.randn(2, 3, 8, 8)
        >>> export_onnx(pack(model, weights), images, "net.onnx")
        >>> session = onnxruntime.InferenceSession("net.onnx")
        >>> [output] = session.run(None, {session.get_inputs()[0].name: images.numpy()})
        >>> torch.allclose(torch.from_numpy(output), model(images), atol=1e-5)
        True
    """
    needed("onnx", "onnx")
    needed("onnxscript", "onnx")
    traced = trace(model, example_input)
    graph = traced.graph.graph
    expanded = traced.weights
    if not exact:
        expanded = [w for w in traced.weights if not _replace_products(traced.graph, w)]
    operators = OnnxOperators(graph)
    used = {name for node in graph.node for name in node.input}
    for weight in expanded:
        if weight.name in used:
            operators.name_it(expand(operators, weight), weight.name)
    _remove_inputs(graph, {weight.name for weight in traced.weights})
    operators.finish()
    content = _content(traced.graph)
    _refuse_invalid(traced.graph)
    _check(
        content, traced.probes, EIGHT_BITS if len(expanded) < len(traced.weights) else FLOAT_BITS
    )
    write_atomically(Path(path), content)


class OnnxOperators(Operators[str]):
    """Operators of ONNX; ``finish`` puts them before all others of the graph."""

    def __init__(self, graph: Any) -> None:
        self.onnx = needed("onnx", "onnx")
        self.graph = graph
        self.nodes: list[Any] = []
        self.shared: dict[Any, str] = {}
        self.taken = {tensor.name for tensor in graph.initializer}
        self.taken |= {name for node in graph.node for name in (*node.input, *node.output)}

    def constant(self, array: Array, name: str = "") -> str:
        if name:
            return self._store(array, name)
        content = (array.dtype.str, array.shape, array.tobytes())
        if content not in self.shared:
            self.shared[content] = self._store(array, "expansion.constant")
        return self.shared[content]

    def look_up(self, table: str, indices: str) -> str:
        whole_numbers = self._add("Cast", indices, to=self.onnx.TensorProto.INT32)
        return self._add("Gather", table, whole_numbers, axis=0)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        return self._add("Reshape", value, self._numbers(*shape))

    def first_columns(self, value: str, count: int) -> str:
        return self._add("Slice", value, *map(self._numbers, (0, count, 1)))

    def multiply(self, value: str, factor: str) -> str:
        return self._add("Mul", value, factor)

    def sum_rows(self, value: str) -> str:
        return self._add("ReduceSum", value, self._numbers(1), keepdims=0)

    def convert(self, value: str, dtype: torch.dtype) -> str:
        proto = self.onnx.TensorProto
        types = {
            torch.float64: proto.DOUBLE,
            torch.float32: proto.FLOAT,
            torch.float16: proto.FLOAT16,
            torch.bfloat16: proto.BFLOAT16,
        }
        return self._add("Cast", value, to=types[dtype])

    def name_it(self, value: str, name: str) -> None:
        """Calls the latest result by a name that the graph already uses."""
        assert self.nodes[-1].output[0] == value
        self.nodes[-1].output[0] = name

    def finish(self) -> None:
        """Puts what was made into the graph."""
        others = list(self.graph.node)
        del self.graph.node[:]
        self.graph.node.extend([*self.nodes, *others])

    def _add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = self._fresh(f"expansion.{operator}")
        self.nodes.append(
            self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes)
        )
        return name

    def _numbers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, dtype=np.int64))

    def _store(self, array: Array, name: str) -> str:
        name = self._fresh(name)
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def _fresh(self, name: str) -> str:
        fresh, count = name, 0
        while fresh in self.taken:
            count += 1
            fresh = f"{name}.{count}"
        self.taken.add(fresh)
        return fresh


def _replace_products(model: Any, traced: TracedWeight) -> bool:
    """Makes the Linear layers of a graph that use the weight multiply its codes.

    Returns:
        Whether it did; else the graph is as it was.
    """
    block = _block_size(traced.weight) if traced.use == "product" else None
    if block is None or traced.dtype != torch.float32:
        return False
    graph = model.graph
    products = linear_products(graph, traced.name)
    names = _store_blocks(graph, traced, block)
    for node in products:
        _replace_product(node, traced, names, block)
    _remove_transposes(graph, traced.name)
    if all(opset.domain != MICROSOFT for opset in model.opset_import):
        model.opset_import.append(needed("onnx", "onnx").helper.make_opsetid(MICROSOFT, 1))
    return True


def _block_size(weight: PackedWeight) -> int | None:
    """How many weights of a row share a stored scale; None if the operator does not fit."""
    form = weight.format
    if form.codebook not in (BINARY, TERNARY) or form.dtype != torch.float32:
        return None
    scales_per_row = form.num_scales // form.num_rows
    if scales_per_row > 1:
        group = form.row_length // scales_per_row
        return next((block for block in BLOCKS if group % block == 0), None)
    return next((block for block in reversed(BLOCKS) if block >= form.row_length), BLOCKS[0])


def _store_blocks(graph: Any, traced: TracedWeight, block: int) -> tuple[str, str]:
    """Puts codes and scales into the graph and returns their names."""
    codes, scales = _blocks(traced.weight, block)
    names = part_name(traced, "codes"), part_name(traced, "scale")
    from_array = needed("onnx.numpy_helper", "onnx").from_array
    for tensor, name in zip((codes, scales), names, strict=True):
        graph.initializer.append(from_array(as_array(tensor), name))
    return names


def _blocks(weight: PackedWeight, block: int) -> tuple[Tensor, Tensor]:
    """Codes (rows, blocks, bytes of a block) and scales (rows, blocks)."""
    form = weight.format
    num_blocks = math.ceil(form.row_length / block)
    indices = weight.indices().to(torch.int16)
    codes = indices + (ZERO - 1) if form.codebook == TERNARY else 2 * indices + (ZERO - 1)
    codes = F.pad(codes, (0, num_blocks * block - form.row_length), value=ZERO)
    packed = pack_bits(codes, 2).reshape(form.num_rows, num_blocks, block // 4)
    scales = weight.scale.reshape(-1, max(1, form.num_scales // form.num_rows))
    scales = scales.expand(form.num_rows, -1)
    return packed, scales.repeat_interleave(num_blocks // scales.shape[1], dim=1)


def _replace_product(node: Any, traced: TracedWeight, names: tuple[str, str], block: int) -> None:
    rows, row_length = traced.weight.format.shape
    bias = list(node.input[2:])
    product = needed("onnx.helper", "onnx").make_node(
        "MatMulNBits",
        [node.input[0], *names, *(["", "", *bias] if bias else [])],
        list(node.output),
        name=node.name,
        domain=MICROSOFT,
        K=row_length,
        N=rows,
        bits=2,
        block_size=block,
        accuracy_level=INT8_ACTIVATIONS,
    )
    node.CopyFrom(product)


def _remove_transposes(graph: Any, name: str) -> None:
    for node in users(graph, name):
        graph.node.remove(node)


def _remove_inputs(graph: Any, names: set[str]) -> None:
    kept = [value for value in graph.input if value.name not in names]
    del graph.input[:]
    graph.input.extend(kept)


def _content(proto: Any) -> bytes:
    if proto.ByteSize() >= 2**31:
        raise ValueError(
            f"export_onnx: the network takes {proto.ByteSize():,} bytes, and an ONNX file holds 2 "
            "GiB; pack more of its layers"
        )
    content: bytes = proto.SerializeToString()
    return content


def _refuse_invalid(graph: Any) -> None:
    try:
        needed("onnx", "onnx").checker.check_model(graph, full_check=True)
    except Exception as error:  # of the checker or of shape inference: they have no common base
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"export_onnx: ONNX has no such operator ({reason}); half precision is a common cause: "
            "export model.float()"
        ) from error


def _check(content: bytes, probes: Probes, bits: int) -> None:
    """Runs the probes in ONNX Runtime, with its own settings, where it is installed."""
    if sys.modules.get("onnxruntime", ...) is None or find_spec("onnxruntime") is None:
        return
    try:
        with TemporaryDirectory() as folder:
            file = Path(folder, "network.onnx")
            file.write_bytes(content)
            (found,) = outputs_of("onnxruntime", file, probes.inputs, [{}])
    except CannotRun as error:
        raise ValueError(
            f"export_onnx: ONNX Runtime cannot run the network ({error}); nothing was written. "
            "For many operators it has no half precision: export model.float()"
        ) from error
    probes.check(found, bits, "export_onnx: ONNX Runtime")
