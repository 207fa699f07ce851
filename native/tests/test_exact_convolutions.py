"""Mode exact: convolutions by Winograd's products, filters of channels, and what layers add."""

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.network_files import BINARY, TERNARY, NetworkFileBuilder
from native.tests.reference import relative_error

SETS = native.instruction_sets()
RELU6 = {"kind": "relu6"}
SHAPES = [  # channels, outputs, height, width; all outputs have 16 tiles or more
    (16, 16, 10, 10),
    (16, 40, 9, 15),
    (32, 17, 9, 10),
    (64, 64, 13, 9),
    (80, 130, 10, 9),
]
PADDINGS = {
    "same": [1, 1, 1, 1],
    "none": [0, 0, 0, 0],
    "uneven": [2, 0, 0, 1],
    "wide": [3, 2, 2, 3],
}


def layer(net, value, name, shape, levels, padding, stride=1, groups=1, **more):
    return net.add(
        "conv",
        value,
        weight=net.packed(name, shape, levels),
        stride=[stride] * 2,
        padding=padding,
        dilation=[1, 1],
        groups=groups,
        **more,
    )


def loaded(path, content, **options):
    path.write_bytes(content)
    return native.load(path, **options)


def images(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def assert_every_way_gives_the_same_bits(path, content, x):
    """All instruction sets, any number of threads, alone or in a batch."""
    expected = loaded(path, content, threads=1, instruction_set="portable")(x)
    for name in SETS:
        for threads in (1, 2, 5):
            network = native.load(path, threads=threads, instruction_set=name)
            np.testing.assert_array_equal(network(x), expected, err_msg=f"{name}, {threads}")
            np.testing.assert_array_equal(network(x[1:2]), expected[1:2], err_msg=name)
    return expected


def three_by_three(shape, levels, padding, added=False):
    channels, outputs, height, width = shape
    net = NetworkFileBuilder((channels, height, width))
    weight = (outputs, channels, 3, 3)
    if not added:
        return net.content(layer(net, 0, "a", weight, levels, padding, activation=RELU6))
    x = layer(net, 0, "a", weight, levels, padding)
    y = layer(net, 0, "b", weight, levels, padding)
    return net.content(net.add("add", x, y, activation=RELU6))


@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_of_winograd_have_the_same_bits_everywhere(shape, padding, added, tmp_path):
    content = three_by_three(shape, TERNARY, PADDINGS[padding], added)
    x = images(3, shape[0], *shape[2:])
    found = assert_every_way_gives_the_same_bits(tmp_path / "net", content, x)
    assert np.abs(found).max() > 0


@pytest.mark.parametrize("levels", [BINARY, TERNARY], ids=["1 bit", "ternary"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("shape", [(16, 16, 9, 15), (16, 33, 12, 8), (64, 48, 13, 9)], ids=str)
def test_products_of_winograd_are_those_of_float64(shape, padding, levels, tmp_path):
    channels, outputs, height, width = shape
    net = NetworkFileBuilder((channels, height, width))
    top, bottom, left, right = PADDINGS[padding]
    content = net.content(layer(net, 0, "a", (outputs, channels, 3, 3), levels, PADDINGS[padding]))
    x = images(2, channels, height, width)
    codes = NetworkFileBuilder((1,)).random.integers(len(levels), size=(outputs, channels * 9))
    weights = np.array(levels, np.float64)[codes].reshape(outputs, channels, 3, 3)
    scale = np.frombuffer(net.tensors["a.scale"].content, np.float32).astype(np.float64)[0]
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (top, bottom), (left, right)])
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = scale * np.einsum("nchwij,ocij->nohw", patches, weights)
    for name in SETS:
        found = loaded(tmp_path / "net", content, instruction_set=name)(x)
        assert relative_error(found, expected) < 1e-6


@pytest.mark.parametrize("set_name", SETS)
def test_no_number_spreads_to_what_reads_it_and_no_further(set_name, tmp_path):
    net = NetworkFileBuilder((16, 12, 12))
    content = net.content(layer(net, 0, "a", (16, 16, 3, 3), TERNARY, [1] * 4))
    network = loaded(tmp_path / "net", content, instruction_set=set_name)
    x = images(3, 16, 12, 12)
    usual = network(x)
    for bad in (np.nan, np.inf):
        x[1, 3, 5, 6] = bad
        with np.errstate(invalid="ignore"):
            found = network(x)
        np.testing.assert_array_equal(found[[0, 2]], usual[[0, 2]])
        assert not np.isfinite(found[1, :, 4:7, 5:8]).any()
        found[1, :, 4:7, 5:8] = usual[1, :, 4:7, 5:8]  # of which nothing is known
        np.testing.assert_array_equal(found, usual)


@pytest.mark.parametrize("padding", [[1, 1, 1, 1], [0, 0, 1, 1], [2, 1, 1, 0], [0, 1, 0, 1]])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 7), (3, 8), (9, 17), (5, 34)], ids=str)
def test_filters_of_channels_have_the_same_bits_everywhere(size, stride, padding, tmp_path):
    height, width = size
    if height + padding[0] + padding[1] < 3 or width + padding[2] + padding[3] < 3:
        pytest.skip("the kernel does not fit")
    for channels in (16, 48, 20):
        net = NetworkFileBuilder((channels, height, width))
        options = {"stride": stride, "groups": channels}
        x = layer(net, 0, "a", (channels, 1, 3, 3), TERNARY, padding, **options)
        y = layer(net, 0, "b", (channels, 1, 3, 3), TERNARY, padding, **options)
        content = net.content(net.add("add", x, y, activation=RELU6))
        assert_every_way_gives_the_same_bits(
            tmp_path / "net", content, images(3, channels, height, width)
        )


@pytest.mark.parametrize("activation", [RELU6, {"kind": "hard_swish"}], ids=["relu6", "hard_swish"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("wide", [96, 144])
def test_a_filter_that_makes_its_inputs_gives_the_bits_of_two_steps(
    wide, stride, activation, tmp_path
):
    """The map between the two layers is larger than a cache."""
    net = NetworkFileBuilder((16, 61, 60))
    x = layer(net, 0, "a", (wide, 16, 1, 1), TERNARY, [0] * 4, activation=activation)
    options = {"stride": stride, "groups": wide, "activation": RELU6}
    y = layer(net, x, "b", (wide, 1, 3, 3), TERNARY, [1] * 4, **options)
    assert_every_way_gives_the_same_bits(tmp_path / "net", net.content(y), images(2, 16, 61, 60))
    image = images(1, 16, 61, 60)
    network = loaded(tmp_path / "one", net.content(y))
    if SETS[-1].startswith("avx512"):
        assert "conv0" not in [name for name, _ in network.profile(image)]
    of_both = loaded(tmp_path / "two", net.content(y, x))(image)
    np.testing.assert_array_equal(network(image), of_both[0])
