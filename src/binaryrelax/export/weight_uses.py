"""What the nodes of an ONNX graph do with a weight."""

from __future__ import annotations

from typing import Any, Literal

Use = Literal["product", "convolution", "other"]


def use_of(graph: Any, name: str) -> Use:
    """How a graph uses a weight: as Linear layers do, as convolutions do, or in another way.

    A network may also transpose it, look up its rows or add it to something. Run times have
    kernels for low-bit weights in products and convolutions only, and some take what is not one
    for one.
    """
    if linear_products(graph, name):
        return "product"
    nodes = users(graph, name)
    are_convolutions = all(
        node.op_type in ("Conv", "ConvTranspose") and list(node.input).index(name) == 1
        for node in nodes
    )
    return "convolution" if nodes and are_convolutions else "other"


def linear_products(graph: Any, name: str) -> list[Any]:
    """The nodes that multiply with the weight as a Linear layer does; none if others use it."""
    transposed = {node.output[0] for node in users(graph, name) if _transposes(node)}
    direct = [node for node in users(graph, name) if not _transposes(node)]
    indirect = [node for transpose in transposed for node in users(graph, transpose)]
    vectors = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 1}
    fits = all(_is_gemm(node, name, vectors) for node in direct) and all(
        node.op_type == "MatMul"
        and node.input[1] in transposed
        and node.input[0] not in (name, *transposed)
        for node in indirect
    )
    outputs = {value.name for value in graph.output}
    return [*direct, *indirect] if fits and not transposed & outputs else []


def users(graph: Any, name: str) -> list[Any]:
    """The nodes that take a value of this name."""
    return [node for node in graph.node if name in node.input]


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


def _transposes(node: Any) -> bool:
    return node.op_type == "Transpose" and list(node.attribute[0].ints) == [1, 0]
