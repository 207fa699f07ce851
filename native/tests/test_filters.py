"""Convolutions with packed filters against numpy, for every instruction set."""

from dataclasses import replace

import binaryrelax_native as native
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from native.tests.reference import (
    Window,
    assert_within,
    byte_values,
    convolve,
    pack,
    random_codes,
    weights_of,
)

SETS = native.instruction_sets()
THREE = Window(kernel=(3, 3), padding=(1, 1))


class Case:
    """Random filters and images for them."""

    def __init__(self, window, images, size, inputs, outputs, bits, seed=0):
        rng = np.random.default_rng(seed)
        self.window, self.bits = window, bits
        self.shape = (outputs * window.groups, inputs, *window.kernel)
        count = inputs * window.kernel[0] * window.kernel[1]
        self.codes = random_codes(rng, (self.shape[0], count), bits)
        self.scale = rng.uniform(0.1, 2, self.shape[0] if seed % 2 else 1).astype(np.float32)
        self.bias = rng.normal(size=self.shape[0]).astype(np.float32) if seed % 3 else None
        self.x = rng.normal(size=(images, *size, inputs * window.groups)).astype(np.float32)

    def run(self, fast, threads=1, name=None):
        window = self.window
        filters = native.PackedFilters(
            pack(self.codes, self.bits),
            self.scale,
            self.shape,
            self.bits,
            window.stride,
            window.padding,
            window.dilation,
            window.groups,
            name,
        )
        size = filters.output_size(*self.x.shape[1:3])
        assert size == window.output_size(*self.x.shape[1:3])
        y = np.full((len(self.x), *size, self.shape[0]), 77, np.float32)
        filters.convolve(self.x, y, self.bias, fast, threads)
        return y

    def expected(self, fast):
        x = self.x
        if fast:
            images = [byte_values(image) for image in x]
            x = np.array([values * scale for values, scale in images]).reshape(x.shape)
        weights = weights_of(self.codes, self.bits).reshape(self.shape)
        y = convolve(x, weights, self.window) * self.scale
        return y if self.bias is None else y + self.bias

    def check(self, fast, threads, name):
        weights = np.abs(weights_of(self.codes, self.bits)).reshape(self.shape)
        terms = convolve(np.abs(self.x), weights, self.window) * self.scale
        if self.bias is not None:
            terms = terms + np.abs(self.bias)
        assert_within(self.run(fast, threads, name), self.expected(fast), terms)


WINDOWS = [
    THREE,
    replace(THREE, stride=(2, 2)),
    Window(stride=(2, 2)),
    Window(),
    replace(THREE, dilation=(2, 3), padding=(2, 3)),
    Window(kernel=(2, 5), stride=(3, 1), padding=(0, 4)),
    replace(THREE, groups=3),
    Window(kernel=(1, 3), stride=(2, 2), padding=(3, 0), groups=2),
]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
@pytest.mark.parametrize("inputs", [1, 3, 16, 70])
@pytest.mark.parametrize("window", WINDOWS, ids=range(len(WINDOWS)))
def test_convolutions_equal_float64(name, bits, fast, inputs, window):
    case = Case(window, 2, (7, 9), inputs, 2 * inputs + 3, bits, seed=inputs)
    case.check(fast, 2, name)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_depthwise(name, bits, fast, multiplier):
    window = replace(THREE, stride=(2, 1), groups=21)
    case = Case(window, 2, (6, 5), 1, multiplier, bits, seed=1)
    case.check(fast, 3, name)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_geometry(data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    window = Window(pair(1, 4), pair(1, 4), pair(0, 5), pair(1, 3), data.draw(st.integers(1, 4)))
    spans = [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    smallest = [max(0, span - 2 * p) for span, p in zip(spans, window.padding, strict=True)]
    size = tuple(data.draw(st.integers(least, least + 8)) for least in smallest)
    inputs, outputs = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 80))
    images, threads = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 4))
    bits, seed = data.draw(st.sampled_from([1, 2])), data.draw(st.integers(0, 100))
    case = Case(window, images, size, inputs, outputs, bits, seed)
    for fast in (False, True):
        for name in SETS:
            case.check(fast, threads, name)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
def test_large_images_are_cut_into_bands(name, bits):
    case = Case(THREE, 1, (40, 200), 40, 33, bits, seed=5)
    for fast in (False, True):
        case.check(fast, 3, name)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("groups", [1, 6], ids=["dense", "depthwise"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_show(name, bits, groups, bad):
    window = replace(THREE, groups=groups)
    case = Case(window, 2, (6, 6), 6 // groups, 12 // groups, bits)
    case.x[0, 1, 2, 3] = bad
    with np.errstate(invalid="ignore"):
        expected = case.expected(False)
    np.testing.assert_allclose(case.run(False, 1, name), expected, rtol=1e-4, atol=1e-4)
    fast = case.run(True, 1, name)
    assert np.isnan(fast[0]).all()
    assert np.isfinite(fast[1]).all()
