"""Packed files: what goes in comes out, and nothing else comes in."""

import os
import re

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from binaryrelax import (
    Binary,
    PerChannel,
    PerGroup,
    Ternary,
    Uniform,
    certify,
    load_packed,
    pack,
    save_packed,
)
from binaryrelax.packed import PackedLayer, PackedLinear
from tests.packed.cases import (
    IMAGES,
    QUANTIZERS,
    Language,
    Residual,
    Tied,
    Twice,
    inputs,
    packed_copy,
    put_in_q,
    same_snapshot,
    same_tensor,
    seeded,
    small_network,
    snapshot,
)


def fresh(make, seed=1):
    """The same architecture with other weights, as a user builds it before loading."""
    return seeded(make, seed)


def check_round_trip(make, quantizer, path, x=IMAGES, **options) -> nn.Module:
    """Saves, loads into a fresh model and compares everything, then saves again."""
    dense = options.pop("dense", True)
    _, packed = packed_copy(make, quantizer, **options)
    save_packed(packed, path, dense=dense)
    model = fresh(make).train()
    loaded = load_packed(path, model)
    assert loaded is model and not any(m.training for m in model.modules())
    assert same_snapshot(snapshot(loaded), snapshot(packed))
    assert torch.equal(loaded(x), packed(x))
    again = path.with_name("again")
    save_packed(loaded, again, dense=dense)
    assert again.read_bytes() == path.read_bytes()
    assert certify(path).ok
    return loaded


@pytest.fixture
def file(tmp_path):
    """A packed small network."""
    path = tmp_path / "net.safetensors"
    save_packed(packed_copy(small_network, Ternary())[1], path)
    return path


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_networks_come_back_bit_for_bit(quantizer, fold, dense, tmp_path):
    check_round_trip(small_network, quantizer, tmp_path / "f", fold_batchnorm=fold, dense=dense)


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (Residual, IMAGES),
        (Tied, inputs(3, 6)),
        (Twice, inputs(3, 6)),
        (Language, torch.arange(11)),
        (lambda: nn.Sequential(*[nn.Linear(6, 6)] * 2), inputs(3, 6)),
        (lambda: nn.Sequential(nn.Conv1d(6, 6, 2), nn.Conv1d(6, 4, 2, bias=False)), inputs(6, 5)),
    ],
)
def test_networks_of_every_shape_come_back(make, x, tmp_path):
    for quantizer in (Binary(), Ternary(), Ternary(granularity=PerChannel())):
        with torch.no_grad():
            check_round_trip(make, quantizer, tmp_path / "f", x)


@torch.no_grad()
def test_transformers_come_back(tmp_path):
    def make():
        return nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)

    for quantizer in (Binary(), Ternary(granularity=PerChannel())):
        keep_float = ("*.in_proj_weight",)
        check_round_trip(make, quantizer, tmp_path / "f", inputs(2, 5, 8), keep_float=keep_float)


def autoencoder() -> nn.Module:
    """Inputs and outputs of its transposed convolutions differ in number, as do their biases."""
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
        nn.BatchNorm2d(6), nn.ReLU(), nn.ConvTranspose2d(6, 2, 1, bias=False),
    )  # fmt: skip


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), Uniform(bits=3)], ids=repr)
def test_networks_with_transposed_convolutions_come_back(quantizer, fold, tmp_path):
    check_round_trip(autoencoder, quantizer, tmp_path / "f", fold_batchnorm=fold)
    kinds = {layer.name: layer.kind for layer in certify(tmp_path / "f").layers}
    assert kinds == {"0": "conv2d", "2": "conv_transpose2d", "5": "conv_transpose2d"}


def test_tied_codes_are_stored_once_and_stay_tied(tmp_path):
    for dense in (True, False):
        loaded = check_round_trip(Tied, Ternary(), tmp_path / "f", inputs(3, 6), dense=dense)
        assert loaded.first.codes.data_ptr() == loaded.second.codes.data_ptr()
        stored = load_file(tmp_path / "f")
        assert ("first.codes" in stored) != ("second.codes" in stored)


def test_weights_of_more_bits_come_back(tmp_path):
    for quantizer in (Uniform(bits=5), Uniform(bits=8), Uniform(bits=3, granularity=PerGroup(2))):
        check_round_trip(small_network, quantizer, tmp_path / "f")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_networks_in_half_precision_come_back(dtype, tmp_path):
    def make():
        return small_network().to(dtype)

    check_round_trip(make, Ternary(), tmp_path / "f", IMAGES.to(dtype))


def test_dense_files_of_ternary_networks_are_smaller(tmp_path):
    _, packed = packed_copy(lambda: nn.Sequential(nn.Linear(1000, 100)), Ternary())
    for name, dense in (("dense", True), ("plain", False)):
        save_packed(packed, tmp_path / name, dense=dense)
    assert (tmp_path / "plain").stat().st_size - (tmp_path / "dense").stat().st_size == 5000


@pytest.mark.parametrize("name", ["net", "net.bin", "a b.ü", "-", ".hidden", "x" * 255, "net.pt"])
def test_any_file_name_will_do(name, tmp_path):
    _, packed = packed_copy(small_network, Binary())
    save_packed(packed, tmp_path / name)
    load_packed(str(tmp_path / name), fresh(small_network))
    assert os.listdir(tmp_path) == [name]


def test_the_same_model_gives_the_same_bytes(file, tmp_path):
    save_packed(packed_copy(small_network, Ternary())[1], tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_models_on_the_meta_device_are_filled(file):
    with torch.device("meta"):
        model = small_network_without_values()
    loaded = load_packed(file, model)
    assert not any(t.is_meta for t in loaded.state_dict().values())
    _, packed = packed_copy(small_network, Ternary())
    assert same_snapshot(snapshot(loaded), snapshot(packed))
    assert torch.equal(loaded(IMAGES), packed(IMAGES))


def small_network_without_values():
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def test_a_file_loads_into_a_packed_model_a_folded_one_and_a_wrapped_one(file):
    _, packed = packed_copy(small_network, Ternary())
    other = fresh(small_network)
    pack(other, put_in_q(other, Binary(granularity=PerChannel())))
    assert same_snapshot(snapshot(load_packed(file, other)), snapshot(packed))
    for wrap in (nn.DataParallel, torch.compile):
        model = fresh(small_network)
        assert load_packed(file, wrap(model)) is model
        assert same_snapshot(snapshot(model), snapshot(packed))


def test_a_folded_file_loads_into_a_folded_model(tmp_path):
    _, packed = packed_copy(small_network, Ternary(), fold_batchnorm=True)
    save_packed(packed, tmp_path / "f")
    _, other = packed_copy(small_network, Binary(), fold_batchnorm=True)
    assert same_snapshot(snapshot(load_packed(tmp_path / "f", other)), snapshot(packed))


def test_float_tensors_of_another_precision_are_converted_to_the_models(file):
    loaded = load_packed(file, fresh(small_network).double())
    assert loaded[1].weight.dtype == torch.float64
    _, packed = packed_copy(small_network, Ternary())
    assert same_tensor(loaded[1].weight, packed[1].weight.double())


def test_a_model_without_packed_layers_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match=re.escape("pack(model, weights) first")):
        save_packed(small_network(), tmp_path / "f")
    assert not os.listdir(tmp_path)


class WithState(nn.Linear):
    """A layer whose state is more than tensors."""

    def get_extra_state(self):
        return {"steps": 3}

    def set_extra_state(self, state):
        pass


def test_state_that_is_no_tensor_is_refused(tmp_path):
    _, packed = packed_copy(lambda: nn.Sequential(nn.Linear(4, 4), WithState(4, 4)), Binary(),
                            keep_float=("1",))  # fmt: skip
    with pytest.raises(ValueError, match=r"'1\._extra_state'"):
        save_packed(packed, tmp_path / "f")


class Odds(nn.Module):
    """Buffers of every kind that a state dict may hold."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        kinds = torch.bool, torch.uint8, torch.int16, torch.float64, torch.complex64
        for number, dtype in enumerate(kinds):
            self.register_buffer(f"b{number}", torch.ones(2, 3).to(dtype))
        self.register_buffer("scalar", torch.tensor(3.5))
        self.register_buffer("empty", torch.zeros(0, 4))
        self.register_buffer("strided", torch.arange(6.0).reshape(2, 3).t())
        self.register_buffer("odd", torch.tensor([torch.nan, -0.0, torch.inf]))

    def forward(self, x):
        return self.layer(x)


def test_buffers_of_every_kind_come_back(tmp_path):
    check_round_trip(Odds, Ternary(), tmp_path / "f", inputs(3, 6))


def with_buffer(**buffers) -> nn.Module:
    """A network that holds these beside a layer."""
    model = nn.Sequential(nn.Linear(6, 6))
    for name, buffer in buffers.items():
        model.register_buffer(name, buffer)
    return model


COMPLEX = torch.complex(torch.arange(6.0), torch.arange(6.0) - 3)
NARROW = torch.arange(1, 7, dtype=torch.uint8)
DENSE_KINDS = {
    "complex64": COMPLEX,
    "conjugated": COMPLEX.conj(),
    "conjugated part": COMPLEX.conj()[1:5:2],
    "imaginary part of a conjugated one": COMPLEX.conj().imag,
    "negative": torch._neg_view(torch.arange(6.0)),
    "conjugated and negative": torch._neg_view(COMPLEX.conj()),
    **{
        str(dtype): NARROW.to(dtype)
        for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn,
                      torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", DENSE_KINDS)
def test_buffers_of_unusual_kinds_come_back_equal(kind, tmp_path):
    value = DENSE_KINDS[kind]
    _, packed = packed_copy(lambda: with_buffer(odd=value), Ternary())
    save_packed(packed, tmp_path / "f")
    empty = torch.zeros(value.shape, dtype=value.dtype)
    loaded = load_packed(tmp_path / "f", with_buffer(odd=empty))
    assert certify(tmp_path / "f").ok
    assert same_tensor(loaded.odd, value.resolve_conj().resolve_neg())
    assert packed.odd.is_conj() == value.is_conj() and packed.odd.is_neg() == value.is_neg()


def test_buffers_that_share_memory_come_back_with_their_own_values(tmp_path):
    """A conjugated view is not the tensor that it views; parts of one tensor may overlap."""
    numbers = torch.arange(6.0)
    buffers = {
        "plain": COMPLEX, "conjugated": COMPLEX.conj(), "first": numbers[:4], "last": numbers[2:],
        "all": numbers, "matrix": numbers.view(2, 3), "again": numbers,
        "negative": torch._neg_view(numbers),
    }  # fmt: skip
    _, packed = packed_copy(lambda: with_buffer(**buffers), Ternary())
    save_packed(packed, tmp_path / "f")
    fresh_ones = {n: torch.zeros(b.shape, dtype=b.dtype) for n, b in buffers.items()}
    loaded = load_packed(tmp_path / "f", with_buffer(**fresh_ones))
    for name, buffer in buffers.items():
        assert torch.equal(getattr(loaded, name), buffer), name
    assert "again" not in load_file(tmp_path / "f")


STRANGE_KINDS = {
    "sparse_coo": (lambda: torch.eye(3).to_sparse(), "to_dense()"),
    "sparse_csr": (lambda: sparse_rows(torch.eye(3)), "to_dense()"),
    "complex128": (lambda: COMPLEX.to(torch.complex128), "to(torch.complex64)"),
    "qint8": (lambda: quantized(torch.ones(3)), "dequantize()"),
    "nested": (lambda: nested([torch.ones(2), torch.ones(3)]), "to_dense()"),
    "on the meta device": (lambda: torch.empty(3, device="meta"), "load a checkpoint"),
    "uint4": (lambda: NARROW.view(torch.uint4), "convert it"),
}


@pytest.mark.filterwarnings("ignore")  # torch's own, of kinds that it calls prototypes
@pytest.mark.parametrize("kind", STRANGE_KINDS)
def test_tensors_that_no_file_can_hold_are_refused_by_name(kind, tmp_path):
    make, way_out = STRANGE_KINDS[kind]
    _, packed = packed_copy(lambda: with_buffer(odd=torch.zeros(1)), Ternary())
    packed.odd = make()
    with pytest.raises(ValueError) as caught:
        save_packed(packed, tmp_path / "f")
    text = str(caught.value)
    assert text.startswith("save_packed: 'odd' in the state of Sequential is ")
    assert kind in text and way_out in text and "\n" not in text and not os.listdir(tmp_path)


def sparse_rows(tensor):
    return tensor.to_sparse_csr()


def quantized(tensor):
    return torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)


def nested(tensors):
    return torch.nested.nested_tensor(tensors)


def test_a_lazy_layer_that_has_not_run_is_refused_by_name(tmp_path):
    _, packed = packed_copy(lambda: with_buffer(), Ternary())
    packed.append(nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"'1\.weight' .* has no values yet: run one batch"):
        save_packed(packed, tmp_path / "f")


def test_a_loaded_network_shares_no_memory_with_its_file(file):
    loaded = load_packed(file, fresh(small_network))
    expected = loaded(IMAGES)
    file.write_bytes(b"\0" * file.stat().st_size)
    assert torch.equal(loaded(IMAGES), expected)


def test_layers_on_other_layers_of_the_same_name_do_not_mix(tmp_path):
    def make():
        return nn.ModuleDict({"a": nn.Linear(4, 4), "ab": nn.Linear(4, 4), "a_b": nn.LayerNorm(4)})

    _, packed = packed_copy(make, Binary(), keep_float=("ab",))
    save_packed(packed, tmp_path / "f")
    loaded = load_packed(tmp_path / "f", make())
    assert isinstance(loaded["a"], PackedLinear) and not isinstance(loaded["ab"], PackedLayer)
    assert same_snapshot(snapshot(loaded), snapshot(packed))


def test_a_model_on_the_meta_device_is_not_saved(tmp_path):
    _, packed = packed_copy(small_network, Binary())
    with pytest.raises(ValueError, match="on the meta device"):
        save_packed(packed.to("meta"), tmp_path / "f")
