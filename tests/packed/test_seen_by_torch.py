"""What torch must see of packed layers: derivatives, autocast, transforms, graphs."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from binaryrelax import Binary, Ternary
from binaryrelax.packed import PackedLayer
from tests.packed.cases import (
    ENGINES,
    IMAGES,
    QUANTIZERS,
    by_engine,
    inputs,
    layer_pair,
    packed_copy,
    small_network,
)

EVERY_QUANTIZER = pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
HALVES = (torch.float16, torch.bfloat16)


@EVERY_ENGINE
def test_autocast_does_what_it_does_to_the_float_layer(engine):
    for make, shape in [
        (lambda: nn.Linear(10, 7), (3, 10)),
        (lambda: nn.Conv2d(4, 6, 3), (2, 4, 5, 5)),
    ]:
        plain, packed = layer_pair(make, Ternary())
        with torch.autocast("cpu", torch.bfloat16), by_engine(engine), torch.no_grad():
            found, expected = packed(inputs(*shape)), plain(inputs(*shape))
        assert found.dtype == torch.bfloat16 and torch.equal(found, expected)


@EVERY_ENGINE
@EVERY_QUANTIZER
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("other", HALVES, ids=str)
def test_autocast_takes_weights_of_either_half_precision(half, other, quantizer, engine):
    plain, packed = layer_pair(lambda: nn.Linear(10, 7).to(half), quantizer)
    for layer in (packed, copy.deepcopy(packed).float()):
        with torch.autocast("cpu", other), by_engine(engine), torch.no_grad():
            found, expected = layer(inputs(3, 10)), plain(inputs(3, 10))
        assert found.dtype == other and torch.equal(found, expected)


@EVERY_ENGINE
@EVERY_QUANTIZER
def test_gradients_flow_to_the_input(quantizer, engine):
    plain, packed = packed_copy(small_network, quantizer)
    gradients = []
    for model in (plain, packed):
        x = IMAGES.clone().requires_grad_()
        with by_engine(engine):
            model(x).square().sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
    assert all(p.grad is None for m in packed.modules() if isinstance(m, PackedLayer)
               for p in m.parameters())  # fmt: skip


@EVERY_ENGINE
@pytest.mark.parametrize(
    ("make", "shape"),
    [(lambda: nn.Linear(10, 7), (3, 10)), (lambda: nn.Conv2d(4, 6, 3), (2, 4, 5, 5))],
)
def test_tangents_of_forward_mode_come_through(make, shape, engine):
    plain, packed = layer_pair(make, Ternary())
    x, tangent = inputs(*shape), inputs(*shape, seed=1)
    found = []
    for layer in (plain, packed):
        with forward_ad.dual_level(), by_engine(engine):
            found.append(forward_ad.unpack_dual(layer(forward_ad.make_dual(x, tangent))).tangent)
    assert torch.equal(*found)


@EVERY_ENGINE
def test_functions_of_torch_func_see_through_packed_layers(engine):
    plain, packed = layer_pair(lambda: nn.Linear(4, 3), Ternary())
    x = inputs(5, 4)
    with by_engine(engine):
        assert torch.allclose(torch.func.vmap(packed)(x), plain(x))
        assert torch.allclose(torch.func.jacrev(packed)(x[0]), plain.weight)
        assert torch.allclose(torch.func.jacfwd(packed)(x[0]), plain.weight)


def test_packed_layers_export_as_codes():
    plain, packed = packed_copy(small_network, Ternary())
    expected = plain(IMAGES).detach()
    exported = torch.export.export(packed, (IMAGES,))
    assert torch.allclose(exported.module()(IMAGES), expected, atol=1e-6)
    assert {"0.codes", "0.scale"} <= set(exported.state_dict)  # codes, not float weights


def test_compiled_packed_layers_give_the_same():
    _, packed = packed_copy(small_network, Ternary())
    with torch.no_grad():
        expected = packed(IMAGES)
        compiled = torch.compile(packed, backend="aot_eager", fullgraph=True)
        assert torch.allclose(compiled(IMAGES), expected, atol=1e-6)
        assert torch.allclose(compiled(inputs(3, 2, 6, 6)), packed(inputs(3, 2, 6, 6)), atol=1e-6)


@EVERY_ENGINE
def test_a_bias_that_is_made_trainable_gets_its_gradient(engine):
    for make, shape in [
        (lambda: nn.Linear(9, 7), (3, 9)),
        (lambda: nn.Conv2d(4, 7, 3), (3, 4, 3, 3)),
    ]:
        _, packed = layer_pair(make, Binary())
        packed.bias.requires_grad_()
        with by_engine(engine):
            packed(inputs(*shape)).sum().backward()
        assert torch.equal(packed.bias.grad, torch.full((7,), 3.0))
