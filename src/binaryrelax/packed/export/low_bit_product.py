"""ONNX Runtime's product with 2-bit weights, ``com.microsoft::MatMulNBits``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from binaryrelax.packed.bits import pack_bits
from binaryrelax.packed.export.expansion import as_array, part_name
from binaryrelax.packed.export.products import linear_products, users
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
    block = _block_size(traced.weight) if traced.use == "product" else None
    if block is None or traced.dtype != torch.float32:
        return False
    graph = model.graph
    products = linear_products(graph, traced.name)
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
    for node in users(graph, name):
        graph.node.remove(node)
