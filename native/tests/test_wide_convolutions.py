"""Convolutions of many channels in fast mode: every way of its own gives the portable bits."""

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.network_files import BINARY, TERNARY, NetworkFileBuilder

SETS = [name for name in native.instruction_sets() if name != "portable"]
SHAPES = [  # channels, outputs, height, width
    (64, 64, 16, 16),
    (64, 40, 15, 18),
    (128, 72, 9, 13),
    (64, 130, 8, 8),
    (128, 64, 4, 4),
    (96, 64, 2, 2),
    (256, 100, 3, 2),
    (64, 16, 1, 1),
]
GEOMETRIES = {
    "3 x 3": {"kernel": 3, "padding": 1},
    "no padding": {"kernel": 3, "padding": 0},
    "wide padding": {"kernel": 3, "padding": 2},
    "stride 2": {"kernel": 3, "padding": 1, "stride": 2},
    "dilated": {"kernel": 3, "padding": 2, "dilation": 2},
    "1 x 1": {"kernel": 1, "padding": 0},
}


def network(channels, outputs, height, width, levels, kernel, padding, stride=1, dilation=1):
    """One convolution of bytes to bytes, and one to floats that adds them again."""
    net = NetworkFileBuilder((channels, height, width), mode="fast")
    shape = (outputs, channels, kernel, kernel)
    around = {
        "stride": [stride] * 2,
        "padding": [padding] * 4,
        "dilation": [dilation] * 2,
        "groups": 1,
    }
    one = {"stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": 1}
    relu = {"kind": "relu"}
    x = net.add("conv", 0, weight=net.packed("wide", shape, levels), activation=relu, **around)
    y = net.add("conv", x, weight=net.packed("after", (outputs, outputs, 1, 1), levels), **one)
    return net.content(net.add("add", y, x))


def images(channels, height, width, count=3):
    """Numbers that cover their range, its two ends only, and one of them."""
    random = np.random.default_rng(0)
    shape = (channels, height, width)
    ends = np.where(random.random(shape) < 0.5, -1.5, 2.0)
    some = [random.uniform(-1.5, 2, shape), ends, np.full(shape, 2.0)]
    return np.stack([some[i % 3] for i in range(count)]).astype(np.float32)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("levels", [BINARY, TERNARY], ids=["1 bit", "ternary"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_instruction_set_gives_the_portable_bits(shape, levels, geometry, tmp_path):
    options = GEOMETRIES[geometry]
    span = (options["kernel"] - 1) * options.get("dilation", 1) + 1
    if min(shape[2:]) + 2 * options["padding"] < span:
        pytest.skip("the kernel does not fit")
    path = tmp_path / "net.brx"
    path.write_bytes(network(*shape, levels, **options))
    x = images(shape[0], *shape[2:])
    expected = native.load(path, threads=1, instruction_set="portable")(x)
    assert np.abs(expected).max() > 0
    for name in SETS:
        for threads in (1, 2):
            found = native.load(path, threads=threads, instruction_set=name)
            np.testing.assert_array_equal(found(x), expected, err_msg=name)
            np.testing.assert_array_equal(found(x[:1]), expected[:1], err_msg=name)
