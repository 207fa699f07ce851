"""Packed layers compute what the float layers with the same weights do."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from binaryrelax import Binary, PerChannel, Ternary, Uniform, pack
from binaryrelax.packed import PackedLayer, PackedLinear, set_kernel_threads, set_mode
from tests.packed.cases import (
    ENGINES,
    IMAGES,
    QUANTIZERS,
    by_engine,
    inputs,
    layer_pair,
    packed_copy,
    put_in_q,
    relative_error,
    same_tensor,
    small_network,
)

EVERY_QUANTIZER = pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
CONVOLUTIONS = {  # layer, shape of its input
    "plain": (lambda: nn.Conv2d(4, 6, 3), (2, 4, 7, 6)),
    "no bias": (lambda: nn.Conv2d(4, 6, 3, bias=False), (2, 4, 7, 6)),
    "stride": (lambda: nn.Conv2d(4, 6, 3, stride=(2, 3), padding=(1, 2)), (2, 4, 9, 8)),
    "same": (lambda: nn.Conv2d(4, 6, 3, padding="same"), (2, 4, 5, 5)),
    "same, asymmetric": (lambda: nn.Conv2d(4, 6, (2, 4), padding="same"), (2, 4, 5, 5)),
    "same, dilated": (
        lambda: nn.Conv2d(4, 6, (2, 3), padding="same", dilation=3),
        (2, 4, 8, 8),
    ),
    "valid": (lambda: nn.Conv2d(4, 6, 3, padding="valid"), (2, 4, 5, 5)),
    "dilation": (lambda: nn.Conv2d(4, 6, 3, dilation=(2, 1), padding=2), (2, 4, 8, 8)),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding=1), (2, 4, 5, 5)),
    "depthwise": (lambda: nn.Conv2d(4, 8, (1, 2), groups=4), (2, 4, 5, 5)),
    "reflect": (lambda: nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode="reflect"), (2, 4, 5, 5)),
    "replicate": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="replicate"), (2, 4, 5, 5)),
    "circular": (
        lambda: nn.Conv2d(4, 6, (2, 4), padding="same", padding_mode="circular"),
        (2, 4, 5, 5),
    ),
    "1x1": (lambda: nn.Conv2d(4, 6, 1), (1, 4, 1, 1)),
    "unbatched": (lambda: nn.Conv2d(4, 6, 3, padding=1), (4, 5, 5)),
    "unbatched, same": (lambda: nn.Conv2d(4, 6, 4, padding="same"), (4, 5, 5)),
    "no images": (lambda: nn.Conv2d(4, 6, 3, padding=1), (0, 4, 5, 5)),
    "one dimension": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 9)),
    "one dimension, same": (lambda: nn.Conv1d(4, 6, 4, padding="same", groups=2), (2, 4, 9)),
    "one dimension, unbatched": (lambda: nn.Conv1d(4, 6, 3), (4, 9)),
    "three dimensions": (lambda: nn.Conv3d(4, 6, 2, stride=(1, 2, 1)), (2, 4, 4, 4, 4)),
    "three dimensions, same": (
        lambda: nn.Conv3d(2, 4, (1, 2, 3), padding="same", padding_mode="replicate"),
        (2, 2, 4, 4, 4),
    ),
}
TRANSPOSED = {
    "plain": (lambda: nn.ConvTranspose2d(4, 6, 3), (2, 4, 5, 4)),
    "no bias": (lambda: nn.ConvTranspose2d(4, 6, 3, bias=False), (2, 4, 5, 4)),
    "doubling": (lambda: nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1), (2, 4, 5, 4)),
    "everything": (
        lambda: nn.ConvTranspose2d(
            4, 6, (2, 3), stride=(2, 3), padding=(0, 1), output_padding=1, groups=2, dilation=2
        ),
        (2, 4, 5, 4),
    ),
    "unbatched": (lambda: nn.ConvTranspose2d(4, 6, 3), (4, 5, 4)),
    "one dimension": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 5)),
    "three dimensions": (lambda: nn.ConvTranspose3d(4, 2, 2, stride=2), (2, 4, 3, 2, 2)),
}


@torch.no_grad()
def check_against_float(plain, packed, x, engine):
    with by_engine(engine):
        found = packed(x)
    assert found.shape == plain(x).shape and found.dtype == x.dtype
    if engine == "torch":
        assert torch.equal(found, plain(x))
    else:
        assert relative_error(found, copy.deepcopy(plain).double()(x.double())) < 1e-5


@EVERY_ENGINE
@EVERY_QUANTIZER
@pytest.mark.parametrize("shape", [(10,), (3, 10), (2, 3, 10), (0, 10), (2, 0, 10)], ids=str)
def test_linear_layers_agree(quantizer, shape, engine):
    for bias in (True, False):
        plain, packed = layer_pair(lambda bias=bias: nn.Linear(10, 7, bias=bias), quantizer)
        assert isinstance(packed, PackedLinear)
        check_against_float(plain, packed, inputs(*shape), engine)


@EVERY_ENGINE
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # the float layer's
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_agree(name, engine):
    make, shape = CONVOLUTIONS[name]
    for quantizer in (Binary(), Ternary(granularity=PerChannel()), Uniform(bits=3)):
        plain, packed = layer_pair(make, quantizer)
        assert same_tensor(packed.weight, plain.weight)
        check_against_float(plain, packed, inputs(*shape), engine)


@EVERY_ENGINE
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions_agree(name, engine):
    make, shape = TRANSPOSED[name]
    for quantizer in (Binary(), Ternary(), Uniform(bits=3)):
        plain, packed = layer_pair(make, quantizer)
        assert same_tensor(packed.weight, plain.weight)
        check_against_float(plain, packed, inputs(*shape), engine)
        check_against_float(plain.double(), packed, inputs(*shape).double(), "torch")


def test_transposed_convolutions_give_the_size_that_is_asked_for():
    plain, packed = layer_pair(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), Ternary())
    x = inputs(2, 4, 5, 5)
    for size in ([11, 12], (2, 6, 12, 12)):
        found = packed(x, output_size=list(size))
        assert torch.equal(found, plain(x, output_size=list(size)))
        assert found.shape[2:] == tuple(size[-2:])
    with pytest.raises(ValueError, match="valid sizes range"):
        packed(x, output_size=[13, 13])


@EVERY_ENGINE
def test_inputs_of_any_stride_agree(engine):
    plain, packed = layer_pair(lambda: nn.Linear(10, 7), Binary())
    check_against_float(plain, packed, inputs(10, 4).t(), engine)
    check_against_float(plain, packed, inputs(4, 20)[:, ::2], engine)
    check_against_float(plain, packed, inputs(10).expand(3, 10), engine)
    plain, packed = layer_pair(lambda: nn.Conv2d(4, 6, 3), Binary())
    check_against_float(plain, packed, inputs(2, 4, 9, 9)[:, :, 1:7, ::2].flip(0), engine)


@EVERY_ENGINE
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_inputs_of_other_precisions_agree_with_the_float_layer_converted(dtype, engine):
    plain, packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())
    with by_engine(engine), torch.no_grad():
        assert torch.equal(
            packed(inputs(3, 10, dtype=dtype)), plain.to(dtype)(inputs(3, 10, dtype=dtype))
        )


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_inputs_that_a_float_layer_refuses_are_refused(dtype):
    plain, packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())
    x = torch.ones(3, 10, dtype=dtype)
    for layer in (plain, packed):
        with pytest.raises(RuntimeError):
            layer(x)


@EVERY_ENGINE
def test_inputs_of_a_wrong_size_are_refused(engine):
    linear, convolution = (
        layer_pair(make, Binary())[1]
        for make in (lambda: nn.Linear(10, 7), lambda: nn.Conv2d(4, 6, 3))
    )
    with by_engine(engine):
        for shape in [(20,), (5, 4), (3, 0), (0, 7), ()]:
            with pytest.raises((RuntimeError, ValueError)):
                linear(torch.ones(shape))
        for shape in [(1, 3, 5, 5), (1, 8, 5, 5), (1, 4, 2, 2), (4, 5), (1, 1, 4, 5, 5)]:
            with pytest.raises((RuntimeError, ValueError)):
                convolution(torch.ones(shape))


@EVERY_ENGINE
@pytest.mark.parametrize("conversion", ["half", "bfloat16", "double"])
def test_converting_a_model_keeps_its_scales_and_weights(conversion, engine):
    plain, packed = packed_copy(small_network, Ternary(granularity=PerChannel()))
    weights = [m.weight for m in packed.modules() if isinstance(m, PackedLayer)]
    converted = getattr(packed, conversion)()
    dtype = converted[1].weight.dtype
    assert dtype != torch.float32
    layers = [m for m in converted.modules() if isinstance(m, PackedLayer)]
    for layer, weight in zip(layers, weights, strict=True):
        assert layer.scale.dtype == torch.float32
        assert same_tensor(layer.packed_weight.unpack(), weight)
        assert same_tensor(layer.weight, weight.to(dtype))  # as a float layer has it
        assert layer.codes.dtype == torch.uint8
        assert layer.bias is None or layer.bias.dtype == dtype
    with by_engine(engine), torch.no_grad():
        assert torch.equal(converted(IMAGES.to(dtype)), plain.to(dtype)(IMAGES.to(dtype)))


def test_the_weight_of_a_converted_model_tells_its_dtype():
    """Hugging Face's CLIP and ViT convert their images to it."""
    model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(16, 3))
    weights = put_in_q(model, Binary())
    packed, plain = pack(model, weights), nn.Conv2d(3, 4, 2)
    for convert in ("bfloat16", "half", "double", "float", "cpu"):
        getattr(packed, convert)(), getattr(plain, convert)()
        assert packed[0].weight.dtype == packed[2].weight.dtype == plain.weight.dtype
    packed.to(torch.bfloat16)
    images = inputs(2, 3, 3, 3).to(packed[0].weight.dtype)
    assert packed(images).dtype == copy.deepcopy(packed)(images).dtype == torch.bfloat16


@pytest.mark.parametrize("layout", ["sparse", "mkldnn"])
def test_inputs_of_other_layouts_work_as_in_a_float_layer(layout):
    plain, packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())
    x = getattr(inputs(3, 10).relu(), f"to_{layout}")()
    found, expected = packed(x), plain(x)
    assert found.layout == expected.layout
    torch.testing.assert_close(found.to_dense(), expected.to_dense())


def test_nested_inputs_work_as_in_a_float_layer():
    plain, packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls them a prototype
        x = torch.nested.nested_tensor([inputs(3, 10), inputs(5, 10)])
    for found, expected in zip(packed(x).unbind(), plain(x).unbind(), strict=True):
        torch.testing.assert_close(found, expected)


def test_pickles_of_layers_that_did_not_know_their_dtype_go_on():
    packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())[1]
    state = packed.__getstate__()
    del state["dtype"]
    old = PackedLinear.__new__(PackedLinear)
    old.__setstate__(state)
    assert torch.equal(old.weight, packed.weight) and old.half().weight.dtype == torch.float16


def test_a_script_is_refused_with_what_works_instead():
    model = nn.Sequential(nn.Linear(10, 7), nn.ReLU())
    packed = pack(model, put_in_q(model, Ternary()))
    with pytest.raises(ValueError, match=r"PackedLinear cannot be scripted; use torch\.jit\.trace"):
        torch.jit.script(packed)
    assert isinstance(packed[0], PackedLinear)  # torch puts what is scripted into the model


def test_no_other_weight_is_put_into_a_packed_layer():
    """Tying it to what it is tied to already, as Hugging Face's tie_weights does, is no change."""
    packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())[1]
    assert isinstance(nn.Sequential(packed).get_parameter("0.weight"), nn.Parameter)
    before = packed.weight
    packed.weight = before
    packed.weight = nn.Parameter(before.clone())
    assert "weight" not in packed._parameters and torch.equal(packed.weight, before)
    for other in (-before, before[:3], None, nn.Parameter(before + 1)):
        with pytest.raises(ValueError, match="takes no other weight"):
            packed.weight = other


@EVERY_ENGINE
def test_a_converted_layer_takes_inputs_of_another_precision(engine):
    packed = layer_pair(lambda: nn.Linear(10, 7), Ternary())[1].half()
    with by_engine(engine), torch.no_grad():
        assert packed(inputs(3, 10)).dtype == torch.float32


@EVERY_ENGINE
def test_not_a_number_comes_through(engine):
    for make, shape in [
        (lambda: nn.Linear(9, 7), (3, 9)),
        (lambda: nn.Conv2d(4, 6, 3), (3, 4, 3, 3)),
    ]:
        plain, packed = layer_pair(make, Binary())
        x = inputs(*shape)
        x[1].flatten()[3] = torch.nan
        x[2].flatten()[3] = torch.inf
        with by_engine(engine), torch.no_grad():
            assert torch.allclose(packed(x), plain(x), atol=1e-5, equal_nan=True)
            fast = set_mode(packed, "fast")(x)
        assert fast[0].isfinite().all() and not fast[1:].isfinite().any()


@EVERY_ENGINE
@pytest.mark.parametrize("quantizer", [Binary(), Ternary()], ids=repr)
def test_fast_mode_stays_near(quantizer, engine):
    for make, shape in [
        (lambda: nn.Linear(300, 70), (3, 300)),
        (lambda: nn.Conv2d(24, 9, 3, padding=1), (2, 24, 7, 7)),
    ]:
        plain, packed = layer_pair(make, quantizer)
        with by_engine(engine), torch.no_grad():
            found = set_mode(packed, "fast")(inputs(*shape))
            assert relative_error(found, plain(inputs(*shape))) < (
                1e-6 if engine == "torch" else 0.02
            )


@pytest.mark.skipif("native" not in ENGINES, reason="binaryrelax-native is not installed")
@torch.no_grad()
def test_the_number_of_kernel_threads_may_be_of_any_whole_type():
    plain, packed = layer_pair(lambda: nn.Linear(6, 4), Binary())
    x = inputs(3, 6)
    try:
        set_kernel_threads(np.int64(2))
        assert relative_error(packed(x), plain(x)) < 1e-5
        for wrong in (0, 1.5, True, "2"):
            with pytest.raises(ValueError, match=r"set_kernel_threads\(count=.*whole number >= 1"):
                set_kernel_threads(wrong)
    finally:
        set_kernel_threads(None)


def test_timms_padding_by_the_size_of_the_input():
    """A class that behaves as timm's and has its name, by which it is known."""

    class Conv2dSame(nn.Conv2d):
        def forward(self, x):
            sides = []
            for size, kernel, stride in zip(
                x.shape[:-3:-1], self.kernel_size[::-1], self.stride[::-1], strict=True
            ):
                total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
                sides += [total // 2, total - total // 2]
            return super().forward(nn.functional.pad(x, sides))

    Conv2dSame.__module__, Conv2dSame.__qualname__ = "timm.layers.conv2d_same", "Conv2dSame"
    for make in (
        lambda: Conv2dSame(4, 6, 3, stride=2),
        lambda: Conv2dSame(4, 4, (5, 2), stride=(1, 3), groups=4),
    ):
        plain, packed = layer_pair(make, Ternary())
        for x in (inputs(2, 4, 9, 8), inputs(1, 4, 6, 7)):
            torch.testing.assert_close(packed(x), plain(x))
