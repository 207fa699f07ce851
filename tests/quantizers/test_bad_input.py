"""Wrong weights and wrong constructor values: ValueErrors that name the call, rule and value."""

import math
from fractions import Fraction

import pytest
import torch

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
    distance,
)

from .cases import ALL_QUANTIZERS, at_every_granularity, supported_dtypes

every_quantizer = pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)


@every_quantizer
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused_by_name(quantizer, bad):
    for dtype in supported_dtypes(quantizer):
        w = torch.ones(4, 6, dtype=dtype)
        w[2, 3] = w[0, 1] = bad
        for variant in at_every_granularity(quantizer):
            for call in (variant.split, variant.project, lambda w, q=variant: distance(w, q)):
                with pytest.raises(ValueError) as error:
                    call(w)
                assert repr(variant) in str(error.value)
                assert "2 of 24" in str(error.value)


@every_quantizer
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.complex64], ids=str)
def test_weights_that_are_not_floating_point_are_refused(quantizer, dtype):
    for call in (quantizer.split, quantizer.project, lambda w: distance(w, quantizer)):
        with pytest.raises(ValueError, match="floating") as error:
            call(torch.ones(4, 6, dtype=dtype))
        assert repr(quantizer) in str(error.value)
        assert str(dtype) in str(error.value)


def test_codes_that_do_not_fit_into_the_dtype_are_refused():
    with pytest.raises(ValueError, match=r"PowerOfTwo\(bits=6\).*float16"):
        PowerOfTwo(bits=6).project(torch.ones(4).half())


WRONG_BITS = [0, 1, -3, 9, 2.0, 3.5, "3", None, True, math.nan, math.inf, (3,), 10**30]


@pytest.mark.parametrize("quantizer", [Uniform, PowerOfTwo, OneStepLloyd])
@pytest.mark.parametrize("bits", WRONG_BITS, ids=repr)
def test_bits_must_be_a_whole_number_from_2(quantizer, bits):
    with pytest.raises(ValueError) as error:
        quantizer(bits=bits)
    assert f"{quantizer.__name__}(bits={bits!r}): bits must be" in str(error.value)


@pytest.mark.parametrize(
    "ratio", [0, 0.0, -0.7, 1.5, math.nan, math.inf, "0.7", None, True, 1j, 10**400], ids=repr
)
def test_ratio_must_be_in_the_unit_interval(ratio):
    with pytest.raises(ValueError) as error:
        TernaryThreshold(ratio=ratio)
    assert f"TernaryThreshold(ratio={ratio!r}): ratio must be" in str(error.value)


WRONG_MAGNITUDES = [
    (),
    (0,),
    (1, 1),
    (0, 0, 1),
    (2, 1),
    (-1, 1),
    (0, math.nan),
    (0, math.inf),
    (0, "1"),
    (0, None),
    (False, True),
    "01",
    3,
    None,
    {0, 1},
    (0, 1j),
    (0, 10**400),
    (0, 1e31),
    (1e-31, 1),
    tuple(range(129)),
    (1, 1 + Fraction(1, 10**30)),
    (Fraction(1, 10**30), Fraction(1, 10**30) + Fraction(1, 10**60)),
]


@pytest.mark.parametrize("magnitudes", WRONG_MAGNITUDES)
def test_levels_must_be_increasing_finite_magnitudes(magnitudes):
    with pytest.raises(ValueError) as error:
        Levels(magnitudes)
    assert f"Levels({magnitudes!r})" in str(error.value)
    assert "magnitudes" in str(error.value).removeprefix(f"Levels({magnitudes!r})")


def test_negative_zero_is_the_level_zero():
    quantizer = Levels((-0.0, 1, 3))
    assert repr(quantizer) == repr(Levels((0, 1, 3)))
    assert not quantizer.project(torch.tensor([0.0, -0.0, 5.0, 1.6])).signbit().any()


@pytest.mark.parametrize("ratio", [Fraction(7, 10), torch.tensor(0.7).item(), 1])
def test_any_real_number_is_a_ratio(ratio):
    w = torch.tensor([1.0, 0.1, -1.0])
    assert TernaryThreshold(ratio=ratio).split(w)[1].tolist() == [1, 0, -1]


@pytest.mark.parametrize("size", [0, -1, 1.5, 2.0, "2", None, True, math.inf], ids=repr)
def test_group_size_must_be_a_whole_number_from_1(size):
    with pytest.raises(ValueError) as error:
        PerGroup(size)
    assert f"PerGroup(size={size!r}): size must be" in str(error.value)


@pytest.mark.parametrize("quantizer", [Binary, Ternary, TernaryThreshold, TernaryAbsMean])
@pytest.mark.parametrize("granularity", [None, "channel", 64, PerLayer, Ternary()], ids=repr)
def test_granularity_must_be_one(quantizer, granularity):
    with pytest.raises(ValueError) as error:
        quantizer(granularity=granularity)
    assert f"{quantizer.__name__}(granularity={granularity!r})" in str(error.value)
    assert "PerLayer()" in str(error.value)


@every_quantizer
@pytest.mark.parametrize("shape", [(4, 6), (4, 3, 2), (6,)], ids=str)
def test_group_size_that_does_not_divide_the_rows_says_so(quantizer, shape):
    variant = type(quantizer)(**{**vars_of(quantizer), "granularity": PerGroup(4)})
    with pytest.raises(ValueError) as error:
        variant.project(torch.ones(shape))
    assert "PerGroup(size=4)" in str(error.value)
    assert str(shape) in str(error.value)


def vars_of(quantizer):
    """The constructor arguments of a quantizer."""
    return {name: getattr(quantizer, name) for name in type(quantizer).__dataclass_fields__}


@pytest.mark.parametrize("granularity", [PerChannel(), PerGroup(1)], ids=repr)
def test_a_weight_without_dimensions_has_no_channels(granularity):
    with pytest.raises(ValueError) as error:
        Ternary(granularity=granularity).project(torch.tensor(1.0))
    assert repr(granularity) in str(error.value)
    assert "dimension" in str(error.value)


@pytest.mark.parametrize("quantizer", [Binary, Ternary])
def test_settings_are_keywords(quantizer):
    with pytest.raises(TypeError):
        quantizer(PerChannel())
