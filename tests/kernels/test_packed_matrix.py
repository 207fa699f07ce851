"""Products with packed weights equal those with the weights themselves, whatever the shape."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from tests.kernels.lockstep import DEVICE, QUIET
from tests.kernels.packed import Case, pack_rows

from binaryrelax.kernels.packed_matrix import FewPlan, ManyPlan, PackedMatrix  # isort: skip

pytestmark = QUIET
HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("batch", [0, 1, 3, 16, 17, 64])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("bits", [1, 2])
def test_product_equals_float64(bits, dtype, batch):
    case = Case(40, 700, bits, row_scales=batch % 2 == 1)
    case.assert_product(case.vectors(batch, 700, dtype=dtype), biased=batch != 3)


@given(
    outputs=st.integers(1, 70),
    inputs=st.integers(1, 1200),
    bits=st.sampled_from([1, 2]),
    row_scales=st.booleans(),
    biased=st.booleans(),
    batch=st.sampled_from([1, 2, 9, 20]),
)
def test_any_shape(outputs, inputs, bits, row_scales, biased, batch):
    case = Case(outputs, inputs, bits, row_scales=row_scales)
    case.assert_product(case.vectors(batch, inputs, dtype=torch.bfloat16), biased=biased)


@pytest.mark.parametrize("batch", [1, 12])
@pytest.mark.parametrize("plan", [FewPlan(tiles=2, warps=2, loads=4), FewPlan(tiles=4, loads=8),
                                  ManyPlan(height=32, columns=16)], ids=repr)  # fmt: skip
@pytest.mark.parametrize("inputs", [1024, 2600])
@pytest.mark.parametrize("bits", [1, 2])
def test_every_plan(bits, inputs, plan, batch):
    """One step, several at once, and a loop of several; whole or with a tail."""
    case = Case(72, inputs, bits)
    case.assert_product(case.vectors(batch, inputs, dtype=torch.bfloat16), plan=plan)


def test_further_dimensions_and_other_layouts():
    case = Case(24, 130, 2)
    case.assert_product(case.vectors(2, 3, 130, dtype=torch.bfloat16))
    case.assert_product(case.vectors(130, dtype=torch.bfloat16))
    case.assert_product(case.vectors(130, 5, dtype=torch.bfloat16).T)
    case.assert_product(case.vectors(3, 200, dtype=torch.float16)[:, 7:137])


@pytest.mark.parametrize("bits", [1, 2])
def test_what_is_not_finite_shows(bits):
    """NaN reaches every output of its vector and of no other."""
    case = Case(16, 100, bits)
    x = case.vectors(2, 100, dtype=torch.bfloat16)
    x[1, 33] = math.nan
    y = case.matrix.multiply(x)
    assert y[1].isnan().all() and y[0].isfinite().all()


def test_memory_is_that_of_the_bits():
    case = Case(64, 1024, 1)
    assert case.matrix.nbytes == 64 * 1024 // 8 + 4


def test_the_same_bits_again():
    case = Case(40, 1500, 1)
    x = case.vectors(4, 1500, dtype=torch.bfloat16)
    assert torch.equal(case.matrix.multiply(x), case.matrix.multiply(x))


def codes_of(outputs, inputs, bits=1):
    return pack_rows(torch.ones(outputs, inputs, dtype=torch.uint8), bits).to(DEVICE)


@pytest.mark.parametrize(
    ("codes", "scale", "inputs", "bits", "message"),
    [
        (codes_of(4, 9), torch.ones(1), 9, 3, "bits must be 1 or 2"),
        (codes_of(4, 9), torch.ones(1), 0, 1, "at least one weight"),
        (codes_of(4, 9), torch.ones(1), 17, 1, r"shape \(outputs, 3\) for 17 weights of 1 bits"),
        (codes_of(4, 9).int(), torch.ones(1), 9, 1, "codes must be uint8"),
        (codes_of(4, 9), torch.ones(3), 9, 1, "float32 with 1 or 4 entries"),
        (codes_of(4, 9), torch.ones(1).double(), 9, 1, "scale must be float32"),
        (codes_of(4, 9, 2) | 3, torch.ones(1), 9, 2, "codes hold a 3"),
    ],
)
def test_wrong_matrices_are_refused(codes, scale, inputs, bits, message):
    with pytest.raises(ValueError, match=message) as caught:
        PackedMatrix(codes, scale.to(DEVICE), inputs, bits)
    assert "\n" not in str(caught.value)


def test_wrong_vectors_are_refused():
    case = Case(4, 9, 1)
    x = case.vectors(2, 9, dtype=torch.bfloat16)
    wrong = [
        ((x[:, :8],), "must end with 9 inputs"),
        ((x[0, 0],), "must end with 9 inputs"),
        ((x.float(),), "must be bfloat16 or float16"),
        ((x, x[0]), "bias must have 4 entries"),
        ((x.to("meta"),), "x is on meta"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            case.matrix.multiply(*arguments)


def test_a_plan_for_few_vectors_refuses_many():
    case = Case(4, 9, 1)
    with pytest.raises(ValueError, match="up to 16 vectors, not 17"):
        case.matrix.multiply(case.vectors(17, 9, dtype=torch.bfloat16), plan=FewPlan())
