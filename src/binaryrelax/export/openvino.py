"""Packed networks as OpenVINO models whose constants have 1 or 2 bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from binaryrelax.export.agreement import EIGHT_BITS, FLOAT_BITS, Probes
from binaryrelax.export.expansion import (
    Array,
    Operators,
    as_array,
    column_of_scales,
    expand,
    finish,
    part_name,
)
from binaryrelax.export.isolated_runtime import CannotRun, outputs_of
from binaryrelax.export.requirements import needed
from binaryrelax.export.tracing import TracedWeight, trace
from binaryrelax.packed.atomic_writing import write_atomically
from binaryrelax.packed.bits import pack_bits
from binaryrelax.packed.packed_weight import BINARY, TERNARY

FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}


def export_openvino(
    model: nn.Module,
    example_input: Tensor | tuple[Tensor, ...],
    path: str | os.PathLike[str],
    *,
    exact: bool = False,
) -> None:
    """Writes a packed model as OpenVINO's ``.xml`` and, beside it, ``.bin``, for any batch size.

    Ternary weights are u2 constants, binary ones u1 in convolutions and u2 in Linear layers. Linear
    layers multiply codes, which OpenVINO keeps in 4 bits: it rounds activations to 8 bits then, and
    outputs differ by about 1 % of the largest one. Where OpenVINO's product is wrong (an odd number
    of inputs; groups of weights whose size is no power of two from 16 on), and for other codebooks
    and precisions, the weights are bytes that the graph expands to floats when it is loaded.

    The network runs with OpenVINO's own settings. On processors with bfloat16 they make it compute
    in bfloat16, which adds about as much; ``{"INFERENCE_PRECISION_HINT": "f32"}`` avoids that.
    Before anything is written OpenVINO's CPU plugin runs a few rows with its own settings and in
    float32; they must agree with the packed model. Inputs or outputs of bfloat16 are not checked.

    Args:
        model: what ``pack`` or ``load_packed`` has returned; it stays as it is.
        example_input: what the model takes: a tensor, or several in a tuple. All sizes but the
            first are those that the exported network will take. Its rows are what OpenVINO runs.
        path: of the ``.xml`` file; both are replaced if they are there. If the ``.bin`` cannot be
            written, both are intact; if the ``.xml`` cannot, there is none.
        exact: ask OpenVINO, inside the model, not to round activations to 8 bits. Whether it
            computes in bfloat16, its default on some processors, only ``compile_model`` can say:
            ``{"INFERENCE_PRECISION_HINT": "f32"}`` gives float32.

    Raises:
        ImportError: the extra ``binaryrelax[openvino]`` is not installed.
        ValueError: no layer is packed, torch cannot export the model, the name does not end in
            ``.xml``, or OpenVINO cannot run the network or gives other outputs; nothing is written.

    Examples:
        >>> import openvino, torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, export_openvino, pack, select_weights
        >>> model = nn.Sequential(nn.Linear(64, 10))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> x = torch.randn(2, 64)
        >>> export_openvino(pack(model, weights), x, "net.xml", exact=True)
        >>> settings = {"INFERENCE_PRECISION_HINT": "f32"}
        >>> compiled = openvino.compile_model("net.xml", "CPU", settings)
        >>> output = torch.from_numpy(compiled(x.numpy())[0])
        >>> torch.allclose(output, model(x), atol=1e-4)
        True
    """
    openvino = needed("openvino", "openvino")
    needed("onnx", "openvino")
    needed("onnxscript", "openvino")
    path = Path(path)
    if path.suffix != ".xml":
        raise ValueError(
            f"export_openvino: {path} must end in .xml; the weights go to the .bin beside it"
        )
    traced = trace(model, example_input)
    network = _read(openvino, traced.graph.SerializeToString())
    weights = {weight.name: weight for weight in traced.weights}
    for parameter in network.get_parameters():
        weight = weights.get(parameter.get_friendly_name())
        if weight is not None:
            parameter.output(0).replace(_expanded(weight).output(0))
            network.remove_parameter(parameter)
    network.validate_nodes_and_infer_types()
    if exact:
        network.set_rt_info("0", ["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])
    contents = _serialized(openvino, network, path, lambda made: _check(made, traced.probes, exact))
    _write(contents, path)


class OpenVinoOperators(Operators[Any]):
    """Operators of OpenVINO, each a node."""

    def __init__(self) -> None:
        self.openvino = needed("openvino", "openvino")
        self.opset = needed("openvino.opset13", "openvino")

    def constant(self, array: Array, name: str = "") -> Any:
        return self._named(self.opset.constant(array), name)

    def packed_constant(self, codes: Array, shape: Sequence[int], bits: int, name: str) -> Any:
        """A constant of 1 or 2 bits per number."""
        kind = {1: self.openvino.Type.u1, 2: self.openvino.Type.u2}[bits]
        tensor = self.openvino.Tensor(codes, self.openvino.Shape(shape), kind)
        constant = self.openvino.op.Constant(tensor, shared_memory=False)
        return self._named(constant, name)

    def as_four_bits(self, value: Any) -> Any:
        """The value in u4; OpenVINO converts constants once, when it loads the graph."""
        return self.opset.convert(value, "u4")

    def look_up(self, table: Any, indices: Any) -> Any:
        whole_numbers = self.opset.convert(indices, "i32")
        return self.opset.gather(table, whole_numbers, self._numbers(0))

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        return self.opset.reshape(value, self._numbers(*shape), special_zero=False)

    def first_columns(self, value: Any, count: int) -> Any:
        return self.opset.slice(value, *map(self._numbers, (0, count, 1, 1)))

    def multiply(self, value: Any, factor: Any) -> Any:
        return self.opset.multiply(value, factor)

    def subtract(self, value: Any, other: Any) -> Any:
        """value - other."""
        return self.opset.subtract(value, other)

    def sum_rows(self, value: Any) -> Any:
        return self.opset.reduce_sum(value, self._numbers(1), keep_dims=False)

    def convert(self, value: Any, dtype: torch.dtype) -> Any:
        types = {
            torch.float64: "f64",
            torch.float32: "f32",
            torch.float16: "f16",
            torch.bfloat16: "bf16",
        }
        return self.opset.convert(value, types[dtype])

    def _numbers(self, *numbers: int) -> Any:
        return self.opset.constant(np.array(numbers, dtype=np.int64))

    def _named(self, node: Any, name: str) -> Any:
        if name:
            node.set_friendly_name(name)
        return node


def _expanded(traced: TracedWeight) -> Any:
    """The node that makes the float weight."""
    operators, codebook = OpenVinoOperators(), traced.weight.format.codebook
    if codebook not in (BINARY, TERNARY) or not _takes_codes(traced):
        node = expand(operators, traced)
    elif codebook == BINARY and traced.use == "convolution":
        node = _from_one_bit(operators, traced)
    else:
        node = _from_two_bits(operators, traced)
    node.set_friendly_name(traced.name)
    return node


def _takes_codes(traced: TracedWeight) -> bool:
    """Whether OpenVINO is right with low-bit weights used in this way.

    Where a network uses a weight in yet another way, it may take the process down. Of Linear layers
    OpenVINO 2026.4 misplaces rows that are not whole bytes, from 5 rows of activations on. Blocks
    of 32 or 64 weights that do not fit the groups get wrong scales, or what is behind them.
    """
    form = traced.weight.format
    if traced.use != "product":
        return traced.use == "convolution"
    if form.dtype != torch.float32 or traced.dtype != torch.float32:
        return False
    if form.num_scales <= form.num_rows:
        return form.row_length % 2 == 0
    group = form.num_weights // form.num_scales
    return group >= 16 and group.bit_count() == 1


def _from_one_bit(operators: OpenVinoOperators, traced: TracedWeight) -> Any:
    """(2 code - 1) * scale, for codes 0 and 1."""
    bits = as_array(traced.weight.indices())
    codes = np.packbits(bits, bitorder="big")  # u1 starts with the most significant bit of a byte
    constant = operators.packed_constant(codes, _shape(traced), 1, part_name(traced, "codes"))
    one, two = (operators.constant(np.array([n], dtype=np.float32)) for n in (1, 2))
    doubled = operators.multiply(operators.convert(constant, torch.float32), two)
    return _scaled(operators, traced, operators.subtract(doubled, one))


def _from_two_bits(operators: OpenVinoOperators, traced: TracedWeight) -> Any:
    """(code - 1) * scale, for codes 0, 1 and 2: the form that OpenVINO has kernels for."""
    indices = traced.weight.indices().reshape(1, -1)
    if traced.weight.format.codebook == BINARY:
        indices = 2 * indices
    shape, codes = _shape(traced), as_array(pack_bits(indices, 2))
    constant = operators.packed_constant(codes, shape, 2, part_name(traced, "codes"))
    zero = operators.packed_constant(np.array([1], dtype=np.uint8), [1] * len(shape), 2, "")
    if traced.use == "product":  # products with 2-bit weights fail in bfloat16, OpenVINO's default
        constant, zero = operators.as_four_bits(constant), operators.as_four_bits(zero)
    levels = operators.subtract(
        operators.convert(constant, torch.float32), operators.convert(zero, torch.float32)
    )
    return _scaled(operators, traced, levels)


def _shape(traced: TracedWeight) -> tuple[int, ...]:
    """The weight's own, or (rows, groups, weights of a group) where a row has several scales."""
    form = traced.weight.format
    if form.num_scales <= form.num_rows:
        return form.shape
    return form.num_rows, form.num_scales // form.num_rows, form.num_weights // form.num_scales


def _scaled(operators: OpenVinoOperators, traced: TracedWeight, levels: Any) -> Any:
    """The float weight, from its levels in the shape that ``_shape`` says."""
    form, shape = traced.weight.format, _shape(traced)
    shape_of_scale = (-1, *[1] * (len(shape) - 1))
    if form.num_scales > form.num_rows:
        shape_of_scale = (form.num_rows, -1, 1)
    scale = column_of_scales(traced).reshape(shape_of_scale)
    product = operators.multiply(levels, operators.constant(scale, part_name(traced, "scale")))
    return finish(operators, traced, product, shape)


def _read(openvino: Any, graph: bytes) -> Any:
    try:
        return openvino.Core().read_model(graph)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"export_openvino: OpenVINO has no operator for a part of the model ({reason}); "
            "export_onnx may do"
        ) from error


def _check(path: Path, probes: Probes, exact: bool) -> None:
    """Runs the probes in OpenVINO's CPU plugin, with its own settings and in float32."""
    try:
        by_default, in_float32 = outputs_of("openvino", path, probes.inputs, [{}, FLOAT32])
    except CannotRun as error:
        raise ValueError(
            f"export_openvino: OpenVINO cannot run the network ({error}); nothing was written"
        ) from error
    probes.check(by_default, EIGHT_BITS, "export_openvino: OpenVINO")
    bits = FLOAT_BITS if exact else EIGHT_BITS
    probes.check(in_float32, bits, "export_openvino: OpenVINO in float32")


def _serialized(
    openvino: Any, network: Any, path: Path, check: Callable[[Path], None]
) -> dict[Path, bytes]:
    """The contents of the two files, which have passed the check: weights, then graph."""
    with TemporaryDirectory() as folder:
        made = Path(folder, path.name)
        openvino.serialize(network, made, made.with_suffix(".bin"))
        check(made)
        return {p: Path(folder, p.name).read_bytes() for p in (path.with_suffix(".bin"), path)}


def _write(contents: dict[Path, bytes], path: Path) -> None:
    """Writes both files, the one that names the other last."""
    weights = path.with_suffix(".bin")
    write_atomically(weights, contents[weights])
    try:
        write_atomically(path, contents[path])
    except OSError:
        with suppress(OSError):  # an old graph does not fit new weights
            path.unlink()
        raise
