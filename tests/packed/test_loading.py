"""What a packed file becomes in a model that is elsewhere, in another precision, or tied."""

import pytest
import torch
from torch import nn

from binaryrelax import PackedFileError, Ternary, load_packed, pack, save_packed
from tests.packed.cases import Language, inputs, put_in_q, same_snapshot, seeded, snapshot


class Rotated(nn.Module):
    """A buffer that is not saved, as the frequencies of Llama are, and tied float layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(6, 6) for _ in range(3))
        self.third.weight = self.second.weight
        self.register_buffer("frequencies", torch.arange(6.0), persistent=False)

    def forward(self, x):
        return self.third(self.second(self.first(x) * self.frequencies))


@pytest.fixture
def file(tmp_path):
    model = seeded(Rotated)
    save_packed(pack(model, put_in_q(model, Ternary(), keep_float=("second",))), tmp_path / "file")
    return tmp_path / "file"


def on_meta(make):
    with torch.device("meta"):
        return make()


def test_a_buffer_that_no_file_holds_is_not_left_on_the_meta_device(file):
    model = on_meta(Rotated)
    before = [type(module) for module in model.modules()]
    with pytest.raises(PackedFileError, match="'frequencies', a buffer that the model does not"):
        load_packed(file, model)
    assert [type(module) for module in model.modules()] == before
    model.frequencies = torch.arange(6.0)
    expected = load_packed(file, Rotated())(inputs(3, 6))
    assert torch.equal(load_packed(file, model)(inputs(3, 6)), expected)


def test_tied_float_weights_come_back_as_one(file):
    model = on_meta(Rotated)
    model.frequencies = torch.arange(6.0)
    model.third.weight.requires_grad_(False)
    loaded = load_packed(file, model)
    assert loaded.second.weight is loaded.third.weight
    assert not loaded.second.weight.requires_grad and loaded.second.bias.requires_grad


@pytest.mark.parametrize("make", [Rotated, lambda: on_meta(Rotated)], ids=["real", "meta"])
def test_every_tensor_takes_the_dtype_of_the_model(make, file):
    """The biases of packed layers, too."""
    model = make().bfloat16()
    model.frequencies = torch.arange(6.0, dtype=torch.bfloat16)
    loaded = load_packed(file, model)
    dtypes = {parameter.dtype for parameter in loaded.parameters()} | {loaded.first.weight.dtype}
    assert dtypes == {torch.bfloat16} and loaded.first.scale.dtype == torch.float32
    x = inputs(3, 6)
    expected = load_packed(file, Rotated()).bfloat16()(x.bfloat16())
    assert torch.equal(loaded(x.bfloat16()), expected)


@pytest.mark.parametrize("make", [Language, lambda: on_meta(Language)], ids=["real", "meta"])
def test_a_tied_embedding_is_tied_in_every_model(make, tmp_path):
    model = seeded(Language)
    save_packed(pack(model, put_in_q(model, Ternary())), tmp_path / "file")
    loaded = load_packed(tmp_path / "file", make())
    assert loaded.embedding.codes is loaded.decoder.codes
    assert torch.equal(loaded(torch.arange(11)), model(torch.arange(11)))
    untied = Language()
    untied.decoder = nn.Linear(6, 11, bias=False)
    again = load_packed(tmp_path / "file", untied)  # what it was built as does not matter
    assert torch.equal(again(torch.arange(11)), model(torch.arange(11)))


class SharedBias(nn.Module):
    """The bias of a layer has another name too, as in BERT, and is that of a second layer."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.bias = self.second.bias = self.last.bias = self.first.bias

    def forward(self, x):
        return self.last(self.second(self.first(x))) + self.bias


@pytest.mark.parametrize("make", [SharedBias, lambda: on_meta(SharedBias)], ids=["real", "meta"])
def test_a_bias_that_layers_share_stays_one(make, tmp_path):
    model = seeded(SharedBias)
    packed = pack(model, put_in_q(model, Ternary(), keep_float=("last",)))
    save_packed(packed, tmp_path / "file")
    loaded = load_packed(tmp_path / "file", make())
    for network in (packed, loaded, packed.bfloat16(), loaded.bfloat16()):
        assert network.bias is network.first.bias is network.second.bias is network.last.bias
    assert torch.equal(loaded(inputs(3, 6).bfloat16()), packed(inputs(3, 6).bfloat16()))


def test_layers_that_share_codes_share_them_on_another_device():
    model = seeded(Language)
    packed = pack(model, put_in_q(model, Ternary()))
    for move in (lambda: packed.bfloat16(), lambda: packed.to("meta")):
        move()
        assert packed.embedding.codes is packed.decoder.codes
        assert packed.embedding.scale is packed.decoder.scale


def test_a_model_with_a_tensor_that_cannot_be_written_stays_as_it_was(file):
    model = Rotated()
    model.second.bias = nn.Parameter(torch.ones(1).expand(6))
    before = snapshot(model)
    with pytest.raises(PackedFileError, match=r"'second\.bias' cannot be written here"):
        load_packed(file, model)
    assert same_snapshot(snapshot(model), before)


def test_a_linear_layer_is_no_embedding(tmp_path):
    model = nn.Sequential(nn.Linear(6, 4, bias=False))
    save_packed(pack(model, put_in_q(model, Ternary())), tmp_path / "file")
    other = nn.Sequential(nn.Embedding(4, 6))
    before = snapshot(other)
    with pytest.raises(PackedFileError, match=r"is linear there, torch\.nn\.Embedding here"):
        load_packed(tmp_path / "file", other)
    assert same_snapshot(snapshot(other), before)
