"""Packed networks as ONNX files that hold codes, not floats."""

from __future__ import annotations

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

from binaryrelax.packed.export.agreement import EIGHT_BITS, FLOAT_BITS, Probes
from binaryrelax.packed.export.expansion import Array, Operators, expand
from binaryrelax.packed.export.low_bit_product import replace_products
from binaryrelax.packed.export.requirements import needed
from binaryrelax.packed.export.run_time import CannotRun, outputs_of
from binaryrelax.packed.export.tracing import trace
from binaryrelax.packed.writing import write_atomically


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
    """
    needed("onnx", "onnx")
    needed("onnxscript", "onnx")
    traced = trace(model, example_input)
    graph = traced.graph.graph
    expanded = traced.weights
    if not exact:
        expanded = [w for w in traced.weights if not replace_products(traced.graph, w)]
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
