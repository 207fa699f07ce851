import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st

from binaryrelax import (
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
from binaryrelax.packed.packed_weight import PACKABLE, PackedWeight, pack_weight
from tests.packed.cases import at_all_granularities, same_tensor
from tests.quantizers.cases import ALL_QUANTIZERS, is_supported, random_weights, weights

SHAPES = ((3, 8), (5, 2, 3, 3), (1, 2), (2, 4, 1))
EVERY_QUANTIZER = pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)


def comes_back(weight: torch.Tensor, quantizer) -> PackedWeight:
    """Packs a weight of Q and checks everything that is promised of it."""
    packed = pack_weight(weight, quantizer)
    assert packed.problem() is None
    assert packed.scale.dtype == torch.float32 and packed.codes.dtype == torch.uint8
    unpacked = packed.unpack()
    assert same_tensor(unpacked, weight)
    again = pack_weight(unpacked, quantizer)
    assert same_tensor(again.codes, packed.codes) and same_tensor(again.scale, packed.scale)
    return packed


@EVERY_QUANTIZER
@pytest.mark.parametrize("dtype", PACKABLE, ids=str)
def test_unpacked_weights_are_the_trained_ones_bit_for_bit(quantizer, dtype):
    if not is_supported(quantizer, dtype):
        pytest.skip("its largest code does not fit into this dtype")
    for own in at_all_granularities(quantizer, size=2):
        for shape in SHAPES:
            weight = own.project(0.05 * random_weights(*shape, dtype=dtype))
            packed = comes_back(weight, own)
            assert packed.format.codebook == own.codebook
            assert packed.format.bits == own.bits
            if own.bits <= 4:  # where projecting twice gives the same bits
                assert same_tensor(own.project(packed.unpack()), weight)


@EVERY_QUANTIZER
@given(data=st.data())
@settings(max_examples=5)
def test_any_projection_comes_back(quantizer, data):
    weight = data.draw(weights(data.draw(st.sampled_from(PACKABLE))))
    if is_supported(quantizer, weight.dtype):
        for own in at_all_granularities(quantizer, size=2):
            comes_back(own.project(weight), own)


@pytest.mark.parametrize("dtype", PACKABLE, ids=str)
@pytest.mark.parametrize(
    "quantizer",
    [Uniform(bits=8), Uniform(bits=5), OneStepLloyd(bits=8), OneStepLloyd(bits=4),
     Levels((0.3, 1.7, 2.2)), Levels((2, 3, 7)), PowerOfTwo(bits=4), TernaryThreshold(),
     TernaryAbsMean()],
    ids=repr,
)  # fmt: skip
def test_every_row_of_many_comes_back_whatever_its_scale(quantizer, dtype):
    """A thousand scales, each recovered from rounded products; some rows miss the top level."""
    rows = random_weights(1000, 6, dtype=torch.float64)
    sizes = torch.logspace(-3, 2, 1000, dtype=torch.float64).unsqueeze(1)
    own = replace(quantizer, granularity=PerChannel())
    comes_back(own.project((rows * sizes).to(dtype)), own)


@pytest.mark.parametrize("dtype", PACKABLE, ids=str)
@pytest.mark.parametrize("quantizer", [Uniform(bits=8), OneStepLloyd(bits=8)], ids=repr)
def test_levels_that_never_reach_the_largest_are_found(quantizer, dtype):
    levels = torch.tensor([[3.0, -1, 0, 2], [0, 0, 5, 0], [1, 1, -1, 1]])
    scales = torch.tensor([[0.1], [0.37], [1e-3]]).to(dtype)
    weight = levels.to(dtype) * scales
    comes_back(weight, replace(quantizer, granularity=PerChannel()))


@EVERY_QUANTIZER
def test_weights_that_are_all_zero_come_back(quantizer):
    if 0.0 not in quantizer.codebook:
        assert quantizer.project(torch.zeros(2, 4)).count_nonzero() == 0  # by a scale of zero
    for own in at_all_granularities(quantizer, size=2):
        assert comes_back(torch.zeros(2, 4), own).scale.count_nonzero() == 0


def test_a_row_of_zeros_among_others_comes_back():
    weight = torch.tensor([[0.0, 0, 0, 0], [0.5, -0.5, 0.5, 0.5]])
    packed = comes_back(weight, Binary(granularity=PerChannel()))
    assert packed.scale.tolist() == [0, 0.5]


@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), Uniform(bits=3), Uniform(bits=8)])
def test_denormals_come_back(quantizer):
    smallest = 2.0**-149
    codes = torch.tensor(quantizer.codebook)[torch.tensor([[0, -1, 0, 1], [-1, 0, 0, -1]])]
    for multiple in (1, 3, 1000, 2**22 + 1):
        weight = codes * (multiple * smallest)
        assert weight.count_nonzero()
        comes_back(weight, quantizer)


@pytest.mark.parametrize("dtype", PACKABLE, ids=str)
def test_the_largest_numbers_come_back(dtype):
    largest = torch.finfo(dtype).max
    comes_back(torch.tensor([[largest, -largest]], dtype=dtype), Binary())
    comes_back(torch.tensor([[largest, 0, -largest]], dtype=dtype), Ternary())


@EVERY_QUANTIZER
def test_one_weight_comes_back(quantizer):
    for value in (0.3, -0.3, 0.0):
        comes_back(quantizer.project(torch.tensor([[value]])), quantizer)


def test_minus_zero_comes_back_as_zero():
    """Projections never write it; a weight that holds it is in Q all the same."""
    packed = pack_weight(torch.tensor([[-0.0, 0.5, -0.5]]), Ternary())
    assert same_tensor(packed.unpack(), torch.tensor([[0.0, 0.5, -0.5]]))
    assert same_tensor(pack_weight(torch.tensor([[-0.0]]), Binary()).unpack(), torch.zeros(1, 1))


def test_memory_format_does_not_matter():
    weight = Ternary().project(random_weights(4, 3, 2, 2))
    strided = weight.contiguous(memory_format=torch.channels_last)
    assert same_tensor(pack_weight(strided, Ternary()).codes, pack_weight(weight, Ternary()).codes)
    view = torch.stack([weight, weight], dim=-1)[..., 0]
    assert same_tensor(pack_weight(view, Ternary()).unpack(), weight)


@EVERY_QUANTIZER
def test_weights_outside_q_are_refused_with_their_distance(quantizer):
    weight = random_weights(3, 400)
    with pytest.raises(ValueError, match="are not in Q: distance") as caught:
        pack_weight(weight, quantizer)
    stated = float(re.search(r"distance (\S+) to", str(caught.value)).group(1))
    assert stated == pytest.approx(float(distance(weight, quantizer)), rel=0.01)
    assert repr(quantizer) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", PACKABLE, ids=str)
def test_one_weight_that_is_one_bit_off_is_refused(dtype):
    weight = Binary().project(random_weights(4, 8, dtype=dtype))
    weight[2, 3] = torch.nextafter(weight[2, 3], torch.zeros_like(weight[2, 3]))
    with pytest.raises(ValueError, match="not in Q"):
        pack_weight(weight, Binary())


def test_weights_of_another_set_are_refused():
    with pytest.raises(ValueError, match="not in Q"):
        pack_weight(Ternary().project(random_weights(2, 30)), Binary())
    with pytest.raises(ValueError, match="not in Q"):  # two scales where there is to be one
        pack_weight(torch.tensor([[1.0, 1], [2, 2]]), Binary())
    comes_back(torch.tensor([[1.0, 1], [2, 2]]), Binary(granularity=PerChannel()))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="1 of 2 weights are NaN or infinite"):
        pack_weight(torch.tensor([[bad, 1.0]]), Binary())


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.complex64, torch.bool])
def test_other_dtypes_are_refused_with_a_way_out(dtype):
    with pytest.raises(ValueError, match=re.escape("model.float()")):
        pack_weight(torch.ones(2, 2, dtype=dtype), Binary())


def test_an_empty_weight_is_refused():
    with pytest.raises(ValueError, match="its weight is empty"):
        pack_weight(torch.zeros(0, 3), Binary())


def test_groups_that_do_not_divide_a_row_are_refused():
    with pytest.raises(ValueError, match="does not divide"):
        pack_weight(torch.ones(2, 5), Binary(granularity=PerGroup(2)))


def test_the_format_counts_what_it_holds():
    packed = pack_weight(Uniform(bits=3).project(random_weights(5, 3, 3)), Uniform(bits=3))
    form = packed.format
    assert (form.num_rows, form.row_length, form.num_weights, form.num_scales) == (5, 9, 45, 1)
    assert form.bits == 3 and form.codes_shape == (5, 4) == tuple(packed.codes.shape)
    assert replace(form, granularity=PerGroup(3)).num_scales == 15
    assert replace(form, granularity=PerChannel()).num_scales == 5
    assert form.granularity == PerLayer()


def test_codes_are_indices_into_the_codebook():
    packed = pack_weight(torch.tensor([[-0.5, 0.5, 0.0, 0.5]]), Ternary())
    assert packed.indices().tolist() == [[0, 2, 1, 2]]
    assert packed.codes.tolist() == [[0b10_01_10_00]] and packed.scale.tolist() == [0.5]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"codes": torch.zeros(2, 3, dtype=torch.uint8)}, "codes are uint8 of shape"),
        ({"codes": torch.zeros(3, 1, dtype=torch.int8)}, "codes are int8 of shape"),
        ({"scale": torch.ones(2)}, "scales are float32 of shape"),
        ({"scale": torch.ones(1).double()}, "scales are float64 of shape"),
        ({"scale": torch.tensor([-1.0])}, "negative, NaN or infinite"),
        ({"scale": torch.tensor([torch.nan])}, "negative, NaN or infinite"),
        ({"scale": torch.tensor([torch.inf])}, "negative, NaN or infinite"),
        ({"codes": torch.full((3, 1), 0b11, dtype=torch.uint8)}, "a code is not below 3"),
        ({"codes": torch.full((3, 1), 0b01_000000, dtype=torch.uint8)}, "padding"),
    ],
)
def test_codes_and_scales_that_do_not_fit_say_why(change, problem):
    packed = pack_weight(Ternary().project(random_weights(3, 3)), Ternary())
    assert problem in replace(packed, **change).problem()
    assert packed.problem() is None


def test_a_scale_that_the_dtype_of_the_weight_cannot_hold_is_a_problem():
    packed = pack_weight(torch.tensor([[0.5, -0.5]]).half(), Binary())
    for scale in (0.1, 1e6):  # would round, and overflow
        assert "float16" in replace(packed, scale=torch.tensor([scale])).problem()


def test_weights_that_would_overflow_are_a_problem():
    packed = pack_weight(torch.tensor([[0.5, -0.5]]), Binary())
    form = replace(packed.format, codebook=(-1e30, 1e30))
    assert "infinite" in replace(packed, format=form, scale=torch.tensor([1e30])).problem()
