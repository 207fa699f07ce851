"""Products of packed matrices against numpy, for every instruction set."""

import binaryrelax_native as native
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from native.tests.reference import (
    assert_within,
    byte_values,
    pack,
    random_codes,
    relative_error,
    weights_of,
)

SETS = native.instruction_sets()
SHAPES = [
    (1, 1),
    (3, 65),
    (16, 4),
    (17, 31),
    (64, 33),
    (65, 128),
    (100, 27),
    (130, 515),
    (48, 1030),
]


def make_case(outputs, inputs, batch, bits, seed=0):
    rng = np.random.default_rng(seed)
    codes = random_codes(rng, (outputs, inputs), bits)
    scale = rng.uniform(0.1, 2.0, outputs if seed % 2 else 1).astype(np.float32)
    x = rng.normal(size=(batch, inputs)).astype(np.float32)
    bias = rng.normal(size=outputs).astype(np.float32) if seed % 3 else None
    return codes, scale, x, bias


def expected_product(codes, scale, x, bias, bits):
    y = x.astype(np.float64) @ weights_of(codes, bits).T * scale
    return y if bias is None else y + bias


def sizes_of_sums(codes, scale, x, bias, bits):
    sums = np.abs(x).astype(np.float64) @ np.abs(weights_of(codes, bits)).T * scale
    return sums if bias is None else sums + np.abs(bias)


def product(codes, scale, x, bias, bits, fast, threads=1, instruction_set=None):
    matrix = native.PackedMatrix(pack(codes, bits), scale, codes.shape[1], bits, instruction_set)
    y = np.full((len(x), len(codes)), 77, np.float32)
    matrix.multiply(x, y, bias, fast, threads)
    return y


def rounded_rows(x):
    rows = [byte_values(row) for row in x]
    return np.array([values * scale for values, scale in rows]).reshape(x.shape)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("batch", [1, 2, 3, 6, 7, 19])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_equal_float64(name, bits, batch, shape):
    codes, scale, x, bias = make_case(*shape, batch, bits, seed=batch)
    exact = product(codes, scale, x, bias, bits, False, instruction_set=name)
    terms = sizes_of_sums(codes, scale, x, bias, bits)
    assert_within(exact, expected_product(codes, scale, x, bias, bits), terms)
    fast = product(codes, scale, x, bias, bits, True, instruction_set=name)
    rounded = expected_product(codes, scale, rounded_rows(x), bias, bits)
    assert_within(fast, rounded, terms)


@settings(max_examples=150, deadline=None)
@given(
    outputs=st.integers(1, 200),
    inputs=st.integers(1, 300),
    batch=st.integers(1, 20),
    bits=st.sampled_from([1, 2]),
    threads=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_all_instruction_sets_agree(outputs, inputs, batch, bits, threads, seed):
    case = make_case(outputs, inputs, batch, bits, seed)
    terms = sizes_of_sums(*case, bits)
    for fast in (False, True):
        portable = product(*case, bits, fast, instruction_set="portable")
        for name in SETS[1:]:
            assert_within(product(*case, bits, fast, threads, name), portable, terms)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("inputs", [11008, 100_000])
@pytest.mark.parametrize("kind", ["normal", "constant", "positive"])
def test_long_sums_stay_within_1e_5(name, bits, inputs, kind):
    rng = np.random.default_rng(1)
    codes = random_codes(rng, (20, inputs), bits)
    if kind == "constant":
        codes[:] = codes.max()
    x = {
        "normal": rng.normal(size=(1, inputs)),
        "constant": np.full((1, inputs), 0.1),
        "positive": rng.uniform(size=(1, inputs)),
    }[kind].astype(np.float32)
    one = np.ones(1, np.float32)
    found = product(codes, one, x, None, bits, False, instruction_set=name)
    assert relative_error(found, expected_product(codes, one, x, None, bits)) < 1e-5


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize(("outputs", "inputs"), [(0, 5), (5, 0), (0, 0), (1, 1), (70, 0)])
def test_empty_sizes(name, fast, batch, outputs, inputs):
    codes, scale, x, bias = make_case(outputs, inputs, batch, 1, seed=2)
    found = product(codes, scale, x, bias, 1, fast, 2, name)
    rows = rounded_rows(x) if fast else x
    np.testing.assert_allclose(found, expected_product(codes, scale, rows, bias, 1), rtol=1e-5)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("batch", [1, 5])
def test_values_that_are_not_finite_show(name, bits, bad, batch):
    codes, scale, x, bias = make_case(70, 45, batch, bits, seed=4)
    x[0, 43] = bad
    with np.errstate(invalid="ignore"):
        expected = expected_product(codes, scale, x, bias, bits)
    exact = product(codes, scale, x, bias, bits, False, instruction_set=name)
    np.testing.assert_allclose(exact, expected, rtol=1e-4, atol=1e-4)
    fast = product(codes, scale, x, bias, bits, True, instruction_set=name)
    assert np.isnan(fast[0]).all()
    assert np.isfinite(fast[1:]).all()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("magnitude", [0.0, 1e-44, 1e-38, 1e-30, 1e30, 3e38])
@pytest.mark.parametrize("batch", [1, 3])
def test_fast_mode_takes_any_magnitude(name, magnitude, batch):
    codes, _, x, _ = make_case(20, 40, batch, 2, seed=1)
    x = np.clip(x / np.abs(x).max(), -1, 1).astype(np.float64)
    x = (x * magnitude).astype(np.float32)
    one = np.ones(1, np.float32)
    found = product(codes, one, x, None, 2, True, instruction_set=name).astype(np.float64)
    error = np.abs(found - expected_product(codes, one, x, None, 2)).max()
    assert error <= 40 * (0.51 * magnitude / 127 + 1e-45) or not np.isfinite(found).all()
    if magnitude <= 1e30:
        assert np.isfinite(found).all()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("offset", [1, 3])
def test_arrays_need_not_start_on_a_cache_line(name, fast, offset):
    codes, scale, x, bias = make_case(67, 70, 7, 2, seed=1)
    shifted = np.zeros(x.size + offset, np.float32)[offset:].reshape(x.shape)
    shifted[:] = x
    plain = product(codes, scale, x, bias, 2, fast, instruction_set=name)
    np.testing.assert_array_equal(
        plain, product(codes, scale, shifted, bias, 2, fast, instruction_set=name)
    )


def test_memory_is_about_that_of_the_codes():
    codes = np.zeros((4096, 512), np.uint8)
    matrix = native.PackedMatrix(codes, np.ones(1, np.float32), 4096, 1)
    assert codes.nbytes <= matrix.nbytes < 1.05 * codes.nbytes
