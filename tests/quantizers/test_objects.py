"""Quantizers as values: equality, hash, repr, copies, codebooks."""

import copy
import json
import pickle

import numpy as np
import pytest

import binaryrelax.quantizers as library
from binaryrelax.quantizers import (
    Binary,
    Levels,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    PerLayer,
    PowerOfTwo,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
    public_granularities,
    public_quantizers,
)
from binaryrelax.quantizers.kinds import granularity_from_plain

from .cases import (
    ALL_QUANTIZERS,
    DTYPES,
    GRANULARITIES,
    random_weights,
    same_bits,
    with_granularity,
)

MATRIX = [with_granularity(q, granularity) for q in ALL_QUANTIZERS for granularity in GRANULARITIES]
every_quantizer = pytest.mark.parametrize("quantizer", MATRIX, ids=repr)


@every_quantizer
def test_copies_are_equal_and_hash_alike(quantizer):
    _ = quantizer.bits  # a cached value must not get in the way
    for other in (
        copy.copy(quantizer),
        copy.deepcopy(quantizer),
        pickle.loads(pickle.dumps(quantizer)),
        eval(repr(quantizer), vars(library)),
    ):
        assert other == quantizer
        assert hash(other) == hash(quantizer)
        assert type(other) is type(quantizer)
        assert (other.codebook, other.bits, repr(other)) == (
            quantizer.codebook,
            quantizer.bits,
            repr(quantizer),
        )


@every_quantizer
def test_quantizers_cannot_be_changed(quantizer):
    with pytest.raises(AttributeError):
        quantizer.granularity = PerLayer()


def test_granularity_distinguishes():
    assert (
        len({Ternary(), Ternary(granularity=PerChannel()), Ternary(granularity=PerGroup(2))}) == 3
    )
    assert PerGroup(2) != PerGroup(4)


EQUAL_PAIRS = [
    (Uniform(bits=2), Ternary()),
    (Levels((0, 1)), Ternary()),
    (PowerOfTwo(bits=2), Ternary()),
    (Levels((1,)), Binary()),
    (Levels((0, 1, 2, 3)), Uniform(bits=3)),
    (Levels((0, 1, 2, 4)), PowerOfTwo(bits=3)),
]


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=repr)
@pytest.mark.parametrize(("first", "second"), EQUAL_PAIRS, ids=str)
def test_equal_sets_are_equal_quantizers_with_equal_projections(first, second, granularity):
    first, second = with_granularity(first, granularity), with_granularity(second, granularity)
    assert first == second
    assert hash(first) == hash(second)
    assert first.bits == second.bits
    for dtype in DTYPES:
        w = random_weights(6, 40, dtype=dtype)
        assert same_bits(first.project(w), second.project(w))
        assert same_bits(first.split(w)[0], second.split(w)[0])


@pytest.mark.parametrize(
    "second", [TernaryThreshold(), TernaryAbsMean(), OneStepLloyd(bits=2), Binary(), None, 2]
)
def test_an_exact_projection_differs_from_heuristics_and_other_sets(second):
    assert Ternary() != second
    assert second != Ternary()


def test_heuristics_with_different_settings_differ():
    assert TernaryThreshold() == TernaryThreshold(ratio=0.7)
    assert TernaryThreshold() != TernaryThreshold(ratio=0.5)
    assert OneStepLloyd(bits=3) != OneStepLloyd(bits=4)
    assert OneStepLloyd(bits=3) == OneStepLloyd(bits=3)


@pytest.mark.parametrize(
    ("quantizer", "codebook", "bits"),
    [
        (Binary(), (-1, 1), 1),
        (Ternary(), (-1, 0, 1), 2),
        (TernaryThreshold(), (-1, 0, 1), 2),
        (TernaryAbsMean(), (-1, 0, 1), 2),
        (Uniform(bits=3), (-3, -2, -1, 0, 1, 2, 3), 3),
        (OneStepLloyd(bits=3), (-3, -2, -1, 0, 1, 2, 3), 3),
        (Uniform(bits=8), tuple(range(-127, 128)), 8),
        (PowerOfTwo(bits=3), (-4, -2, -1, 0, 1, 2, 4), 3),
        (PowerOfTwo(bits=4), (-64, -32, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32, 64), 4),
        (Levels((0, 1, 3)), (-3, -1, 0, 1, 3), 3),
        (Levels((0.5, 2)), (-2, -0.5, 0.5, 2), 2),
        (Levels((1, 2, 3)), (-3, -2, -1, 1, 2, 3), 3),
        (Levels([7]), (-7, 7), 1),
    ],
    ids=repr,
)
def test_codebook_and_bits(quantizer, codebook, bits):
    assert quantizer.codebook == codebook
    assert all(type(code) is float for code in quantizer.codebook)
    assert quantizer.bits == bits


@pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)
def test_codebook_is_increasing_and_symmetric(quantizer):
    codebook = quantizer.codebook
    assert list(codebook) == sorted(set(codebook))
    assert tuple(-code for code in reversed(codebook)) == codebook


def test_repr_says_what_was_written():
    assert repr(Ternary()) == "Ternary()"
    assert repr(Uniform(bits=3)) == "Uniform(bits=3)"
    assert repr(Binary(granularity=PerGroup(64))) == "Binary(granularity=PerGroup(size=64))"


@pytest.mark.parametrize("kind", [Uniform, PowerOfTwo, OneStepLloyd, PerGroup], ids=repr)
def test_numbers_of_other_types_become_plain_ones(kind):
    given, plain = kind(np.int64(3)), kind(3)
    assert given == plain and repr(given) == repr(plain)
    assert json.dumps(vars(given), default=repr) == json.dumps(vars(plain), default=repr)


def test_every_kind_with_a_public_name_is_tested():
    assert {type(quantizer) for quantizer in ALL_QUANTIZERS} == {*public_quantizers().values()}
    assert {type(granularity) for granularity in GRANULARITIES} == {
        *public_granularities().values()
    }


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=repr)
def test_granularities_come_back_from_what_files_call_them(granularity):
    assert granularity_from_plain(granularity.to_plain()) == granularity


@pytest.mark.parametrize("value", ["group", "", None, True, 3.0, [], "PerLayer()"], ids=repr)
def test_a_granularity_that_no_file_can_hold_is_not_guessed(value):
    with pytest.raises(ValueError, match="no granularity is called"):
        granularity_from_plain(value)
