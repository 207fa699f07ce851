"""ONNX Runtime's product with 2-bit weights, ``com.microsoft::MatMulNBits``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from binaryrelax.packed.bits import pack_bits
from binaryrelax.packed.export.expansion import as_array, part_name
from binaryrelax.packed.export.requirements import needed
from binaryrelax.packed.export.tracing import TracedWeight
from binaryrelax.packed.weights import BINARY, TERNARY, PackedWeight

DOMAIN = "com.microsoft"
BLOCKS = (128, 64, 32)  # weights per scale: with others ONNX Runtime takes a hundred times longer
ZERO = 2  # the 2-bit code of level 0, when a node has no zero points of its own
INT8_ACTIVATIONS = 4  # the accuracy level with fast 2-bit kernels


def replace_products(model: Any, traced: TracedWeight) -> bool:
    """Makes the Linear layers of a graph that use the weight multiply its codes.

    Returns:
        Whether it did; else the graph is as it was.
    """
    block = _block_size(traced.weight) if traced.of_linear else None
    if block is None or traced.dtype != torch.float32:
        return False
    graph = model.graph
    products = _products(graph, traced)
    if not products:
        return False
    names = _store(graph, traced, block)
    for node in products:
        _replace(node, traced, names, block)
    _remove_transposes(graph, traced.name)
    if all(opset.domain != DOMAIN for opset in model.opset_import):
        model.opset_import.append(needed("onnx", "onnx").helper.make_opsetid(DOMAIN, 1))
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


def _products(graph: Any, traced: TracedWeight) -> list[Any]:
    """The nodes that multiply with the weight as a Linear layer does; none if others use it."""
    transposed = {node.output[0] for node in _users(graph, traced.name) if _transposes(node)}
    direct = [node for node in _users(graph, traced.name) if not _transposes(node)]
    indirect = [node for name in transposed for node in _users(graph, name)]
    vectors = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 1}
    fits = all(_is_gemm(node, traced.name, vectors) for node in direct) and all(
        node.op_type == "MatMul" and node.input[1] in transposed for node in indirect
    )
    outputs = {value.name for value in graph.output}
    return [*direct, *indirect] if fits and not transposed & outputs else []


def _is_gemm(node: Any, name: str, vectors: set[str]) -> bool:
    """Whether it is x @ weight.T, plus a bias that is a constant vector, or none."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    plain = all(attributes[n].f == 1.0 for n in ("alpha", "beta") if n in attributes)
    return (
        node.op_type == "Gemm"
        and node.input[1] == name
        and name not in (node.input[0], *node.input[2:])
        and plain
        and "transB" in attributes
        and attributes["transB"].i == 1
        and not ("transA" in attributes and attributes["transA"].i)
        and all(bias in vectors for bias in node.input[2:])
    )


def _store(graph: Any, traced: TracedWeight, block: int) -> tuple[str, str]:
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


def _replace(node: Any, traced: TracedWeight, names: tuple[str, str], block: int) -> None:
    rows, row_length = traced.weight.format.shape
    bias = list(node.input[2:])
    product = needed("onnx.helper", "onnx").make_node(
        "MatMulNBits",
        [node.input[0], *names, *(["", "", *bias] if bias else [])],
        list(node.output),
        name=node.name,
        domain=DOMAIN,
        K=row_length,
        N=rows,
        bits=2,
        block_size=block,
        accuracy_level=INT8_ACTIVATIONS,
    )
    node.CopyFrom(product)


def _remove_transposes(graph: Any, name: str) -> None:
    for node in _users(graph, name):
        graph.node.remove(node)


def _users(graph: Any, name: str) -> list[Any]:
    return [node for node in graph.node if name in node.input]


def _transposes(node: Any) -> bool:
    return node.op_type == "Transpose" and list(node.attribute[0].ints) == [1, 0]
