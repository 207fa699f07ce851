"""Packed networks do not depend on torch's default dtype and device."""

from contextlib import contextmanager

import pytest
import torch

from binaryrelax import Binary, Ternary, certify, export_onnx, load_packed, pack, save_packed
from tests.packed.cases import (
    IMAGES,
    packed_copy,
    put_in_q,
    same_snapshot,
    same_tensor,
    seeded,
    small_network,
    snapshot,
)


@contextmanager
def default_dtype(dtype: torch.dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


DEFAULTS = {
    "float64": lambda: default_dtype(torch.float64),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "meta": lambda: torch.device("meta"),
}
EVERY_DEFAULT = pytest.mark.parametrize("other", DEFAULTS.values(), ids=DEFAULTS)


@torch.no_grad()
@EVERY_DEFAULT
@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_packed_layers_compute_the_same(quantizer, other):
    _, packed = packed_copy(small_network, quantizer)
    expected = packed(IMAGES)
    with other():
        assert same_tensor(packed(IMAGES), expected)
        packed[0]._products.clear(), packed[7]._products.clear()
        assert same_tensor(packed(IMAGES), expected)


@EVERY_DEFAULT
@pytest.mark.parametrize("fold", [False, True])
def test_packing_gives_the_same_network(fold, other):
    _, expected = packed_copy(small_network, Ternary(), fold_batchnorm=fold)
    model = seeded(small_network)
    weights = put_in_q(model, Ternary())
    with other():
        assert same_snapshot(
            snapshot(pack(model, weights, fold_batchnorm=fold)), snapshot(expected)
        )


@EVERY_DEFAULT
def test_files_are_the_same(tmp_path, other):
    _, packed = packed_copy(small_network, Ternary())
    save_packed(packed, tmp_path / "plain")
    certificate, model = certify(tmp_path / "plain"), seeded(small_network)
    with other():
        save_packed(packed, tmp_path / "other")
        assert certify(tmp_path / "other") == certificate
        load_packed(tmp_path / "other", model)
    assert (tmp_path / "other").read_bytes() == (tmp_path / "plain").read_bytes()
    assert same_snapshot(snapshot(model), snapshot(packed))


@pytest.fixture(scope="module")
def plain_graph(tmp_path_factory):
    """A packed network, and the file that it is exported to without another default."""
    _, packed = packed_copy(small_network, Ternary())
    path = tmp_path_factory.mktemp("plain") / "plain.onnx"
    export_onnx(packed, IMAGES, path)
    return packed, path


@EVERY_DEFAULT
def test_graphs_are_the_same(plain_graph, tmp_path, other):
    packed, plain = plain_graph
    with other():
        export_onnx(packed, IMAGES, tmp_path / "other.onnx")
    assert (tmp_path / "other.onnx").read_bytes() == plain.read_bytes()
