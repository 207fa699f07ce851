"""Hooks of the layers that packed ones replace go on working."""

import copy

import pytest
import torch
from torch import nn

from binaryrelax import Binary, Ternary, load_packed, pack, save_packed
from binaryrelax.packed import PackedConv2d, PackedLinear
from binaryrelax.packed.folding import FoldedNorm
from tests.packed.cases import IMAGES, inputs, put_in_q, seeded, small_network


def packed_by_pack(model, tmp_path):
    return pack(model, put_in_q(model, Ternary()))


def packed_by_loading(model, tmp_path):
    twin = copy.deepcopy(model)
    save_packed(pack(twin, put_in_q(twin, Ternary())), tmp_path / "net.safetensors")
    put_in_q(model, Ternary())
    return load_packed(tmp_path / "net.safetensors", model)


def packed_and_loaded_once_more(model, tmp_path):
    model = packed_by_pack(model, tmp_path)
    save_packed(model, tmp_path / "net.safetensors")
    return load_packed(tmp_path / "net.safetensors", model)


PACKINGS = pytest.mark.parametrize(
    "packed_by", [packed_by_pack, packed_by_loading, packed_and_loaded_once_more]
)


def one_layer():
    return nn.Sequential(seeded(lambda: nn.Linear(6, 4)))


def doubled(module, args):
    return (2 * args[0],)


def doubled_with_kwargs(module, args, kwargs):
    return (2 * args[0],), kwargs


def tripled(module, args, output):
    return 3 * output


def tripled_with_kwargs(module, args, kwargs, output):
    return 3 * output


HOOKS = {
    "before": lambda m: m.register_forward_pre_hook(doubled),
    "before, with kwargs": lambda m: m.register_forward_pre_hook(
        doubled_with_kwargs, with_kwargs=True
    ),
    "after": lambda m: m.register_forward_hook(tripled),
    "after, with kwargs": lambda m: m.register_forward_hook(tripled_with_kwargs, with_kwargs=True),
}


@PACKINGS
@pytest.mark.parametrize("name", HOOKS)
@torch.no_grad()
def test_forward_hooks_change_what_they_changed_and_go_by_their_handles(name, packed_by, tmp_path):
    model, x = one_layer(), inputs(3, 6)
    put_in_q(model, Ternary())
    without = model(x)
    handle = HOOKS[name](model[0])
    expected = model(x)
    packed = packed_by(model, tmp_path)
    assert isinstance(packed[0], PackedLinear) and not torch.allclose(expected, without)
    assert torch.allclose(packed(x), expected, atol=1e-6)
    assert torch.allclose(copy.deepcopy(packed)(x), expected, atol=1e-6)
    handle.remove()
    assert torch.allclose(packed(x), without, atol=1e-6)


@PACKINGS
def test_hooks_keep_their_order_and_get_the_packed_layer(packed_by, tmp_path):
    model, seen = one_layer(), []
    for name in "ab":
        model[0].register_forward_hook(lambda m, *_, name=name: seen.append((name, m)))
    model[0].register_forward_hook(lambda m, *_: seen.append(("c", m)), prepend=True)
    packed = packed_by(model, tmp_path)
    packed[0].register_forward_hook(lambda m, *_: seen.append(("d", m)))
    seen.clear()
    packed(inputs(3, 6))
    assert seen == [(name, packed[0]) for name in "cabd"]


@PACKINGS
def test_hooks_that_are_always_called_are_called_when_the_layer_fails(packed_by, tmp_path):
    model, seen = one_layer(), []
    model[0].register_forward_hook(lambda *_: seen.append("called"), always_call=True)
    packed = packed_by(model, tmp_path)
    seen.clear()
    with pytest.raises((RuntimeError, ValueError)):
        packed(inputs(3, 5))
    assert seen == ["called"]


@PACKINGS
def test_backward_hooks_see_the_gradients_of_the_packed_layer(packed_by, tmp_path):
    model, seen = one_layer(), []
    model[0].register_full_backward_hook(lambda m, gradients, _: (10 * gradients[0],))
    model[0].register_full_backward_pre_hook(lambda m, gradients: seen.append(gradients[0].shape))
    packed = packed_by(model, tmp_path)
    x = inputs(3, 6).requires_grad_()
    packed(x).sum().backward()
    assert torch.allclose(x.grad, 10 * packed[0].weight.sum(0).expand(3, 6), atol=1e-6)
    assert seen == [(3, 4)]


@torch.no_grad()
def test_hooks_of_the_wrapper_of_a_compiled_layer_stay_around_those_of_the_layer():
    model, x = one_layer(), inputs(3, 6)
    model[0].register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    model[0].register_forward_hook(lambda m, args, y: y + 1)
    model[0] = torch.compile(model[0], backend="eager")
    model[0].register_forward_pre_hook(doubled)
    model[0].register_forward_hook(tripled)
    weights = put_in_q(model, Ternary())
    expected = model(x)
    assert torch.allclose(pack(model, weights)(x), expected, atol=1e-5)
    assert type(model[0]) is PackedLinear


@torch.no_grad()
def test_nothing_is_folded_where_a_hook_sees_what_lies_between():
    for hook, is_folded in {
        lambda m: m[0].register_forward_hook(tripled): False,
        lambda m: m[1].register_forward_pre_hook(doubled): False,
        lambda m: m[0].register_forward_pre_hook(doubled): True,
        lambda m: m[1].register_forward_hook(tripled): True,
    }.items():
        model = seeded(small_network)
        hook(model)
        weights = put_in_q(model, Binary())
        expected = model(IMAGES)
        packed = pack(model, weights, fold_batchnorm=True)
        assert isinstance(packed[1], FoldedNorm) == is_folded
        assert isinstance(packed[4], FoldedNorm) and isinstance(packed[0], PackedConv2d)
        assert torch.allclose(packed(IMAGES), expected, atol=1e-4)
