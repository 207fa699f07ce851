"""Copies, state dicts, modes and threads of packed layers."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from binaryrelax import Binary, PerGroup, Ternary, pack
from binaryrelax.packed import PackedConv2d, PackedLayer, set_mode
from tests.packed.cases import (
    ENGINES,
    IMAGES,
    QUANTIZERS,
    by_engine,
    inputs,
    layer_pair,
    packed_copy,
    put_in_q,
    seeded,
    small_network,
)

EVERY_QUANTIZER = pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


@EVERY_ENGINE
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_alike(copied, engine):
    _, packed = packed_copy(small_network, Ternary())
    with by_engine(engine), torch.no_grad():
        expected = packed(IMAGES)
        twin = copied(packed)
        assert torch.equal(twin(IMAGES), expected)
        twin[0].scale.mul_(2)
        assert not torch.equal(twin(IMAGES), expected)
        assert torch.equal(packed(IMAGES), expected)
    assert twin[0].format == packed[0].format and repr(twin[0]) == repr(packed[0])


@EVERY_ENGINE
@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad, torch.inference_mode])
def test_loading_a_state_dict_into_a_layer_that_has_run_changes_its_answers(mode, engine):
    _, first = packed_copy(small_network, Ternary())
    other = seeded(small_network, seed=1)
    second = pack(other, put_in_q(other, Ternary()))
    with by_engine(engine), mode():
        before = first(IMAGES)
        first.load_state_dict(second.state_dict())
        assert torch.equal(first(IMAGES), second(IMAGES))
        assert not torch.equal(first(IMAGES), before)
        first.load_state_dict(copy.deepcopy(second.state_dict()), assign=True)
        assert torch.equal(first(IMAGES), second(IMAGES))


@EVERY_ENGINE
def test_layers_packed_and_loaded_in_inference_mode_are_never_stale(engine):
    with torch.inference_mode(), by_engine(engine):
        _, first = packed_copy(lambda: nn.Sequential(nn.Linear(10, 7)), Ternary())
        before = first(inputs(3, 10))
        state = {**first.state_dict(), "0.scale": 2 * first[0].scale, "0.bias": 2 * first[0].bias}
        first.load_state_dict(state)
        assert torch.allclose(first(inputs(3, 10)), 2 * before)


@EVERY_ENGINE
def test_codes_and_scales_written_by_hand_are_seen(engine):
    _, packed = layer_pair(lambda: nn.Linear(10, 7, bias=False), Binary())
    with by_engine(engine), torch.no_grad():
        before = packed(inputs(3, 10))
        packed.scale *= 2
        assert torch.allclose(packed(inputs(3, 10)), 2 * before)
        packed.scale = packed.scale / 4
        assert torch.allclose(packed(inputs(3, 10)), before / 2)


@EVERY_ENGINE
@EVERY_QUANTIZER
def test_threads_share_a_layer(quantizer, engine):
    _, packed = packed_copy(small_network, quantizer)
    with by_engine(engine), torch.inference_mode():
        expected = [packed(inputs(2, 2, 6, 6, seed=seed)) for seed in range(8)]
    fresh = copy.deepcopy(packed)  # its first products are made by several threads at once

    def answer(seed):
        with torch.inference_mode():
            return fresh(inputs(2, 2, 6, 6, seed=seed % 8))

    with by_engine(engine), ThreadPoolExecutor(4) as pool:
        for seed, found in enumerate(pool.map(answer, range(64))):
            assert torch.equal(found, expected[seed % 8])


def test_a_layer_says_what_it_is():
    _, packed = packed_copy(small_network, Ternary(granularity=PerGroup(2)))
    assert repr(packed[0]).startswith("PackedConv2d(2, 6, kernel_size=(3, 3)")
    assert "PerGroup(size=2)" in repr(packed[7]) and "16, 3" in repr(packed[7])
    assert not packed.training and isinstance(packed[0], PackedConv2d)
    assert not any(p.requires_grad for m in (packed[0], packed[7]) for p in m.parameters())


def test_state_dicts_hold_codes_and_scales_and_no_float_weight():
    _, packed = packed_copy(small_network, Ternary())
    assert [n for n in packed.state_dict() if n.startswith("7.")] == [
        "7.bias",
        "7.codes",
        "7.scale",
    ]


def test_modes_are_two_and_reach_every_layer():
    _, packed = packed_copy(small_network, Ternary())
    assert set_mode(packed, "fast") is packed
    assert {m.mode for m in packed.modules() if isinstance(m, PackedLayer)} == {"fast"}
    assert copy.deepcopy(packed)[0].mode == "fast"
    with pytest.raises(ValueError, match="'exact' or 'fast'"):
        set_mode(packed, "faster")
