"""What cannot be packed is refused with one line, and the model stays as it was."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from binaryrelax import (
    Binary,
    PackedFileError,
    SelectedWeights,
    Ternary,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.packed import PackedLinear
from binaryrelax.quantizers.quantizable_layers import type_name
from tests.packed.cases import (
    pack_refused,
    put_in_q,
    same_snapshot,
    seeded,
    small_network,
    snapshot,
)


def test_one_weight_outside_q_leaves_the_whole_model_as_it_was():
    model = seeded(small_network).train()
    weights = put_in_q(model, Ternary())
    with torch.no_grad():
        model[7].weight[1, 2] += 0.01
    for fold in (False, True):
        text = pack_refused(model, weights, fold_batchnorm=fold)
        assert "layer '7'" in text and "distance 0.00" in text


class Louder(nn.Linear):
    """A Linear layer that does something else with its weight."""

    def forward(self, x):
        return 2 * super().forward(x)


class Standardized(nn.Conv2d):
    """A convolution that does something else with its weight."""

    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, weight - weight.mean(), bias)


class WithNotes(nn.Linear):
    """A Linear layer that keeps a buffer beside its weight."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("mask", torch.ones(4))


class WithChild(nn.Linear):
    """A Linear layer that keeps a module inside of itself."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.norm = nn.LayerNorm(4)


class WithGain(nn.Linear):
    """A Linear layer with one parameter more."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.gain = nn.Parameter(torch.ones(()))


def patched(layer, method):
    """The layer with a method of its own, which does something else."""
    old = getattr(layer, method)
    setattr(layer, method, lambda *inputs: 2 * old(*inputs))
    return layer


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Louder(4, 4), "'forward' of its own"),
        (lambda: Standardized(4, 4, 1), "'_conv_forward' of its own"),
        (lambda: WithNotes(4, 4), "it also holds 'mask'"),
        (lambda: WithChild(4, 4), "it also holds 'norm'"),
        (lambda: WithGain(4, 4), "it also holds 'gain'"),
        (lambda: patched(nn.Linear(4, 4), "forward"), "somebody has replaced 'forward'"),
        (lambda: patched(nn.Conv2d(4, 4, 1), "_conv_forward"), "replaced '_conv_forward'"),
    ],
    ids=["forward", "_conv_forward", "buffer", "child", "parameter", "patched", "patched conv"],
)
def test_layers_that_do_something_else_are_refused(make, reason):
    model = nn.Sequential(nn.Linear(4, 4), make())
    with pytest.warns(UserWarning, match=r"pack will refuse '1'.*keep_float"):
        weights = put_in_q(model, Binary())
    text = pack_refused(model, weights)
    assert f"layer '1' is a {type_name(model[1])}" in text
    assert reason in text and "keep_float" in text
    pack(model, put_in_q(model, Binary(), keep_float=("1",)))  # no warning, and it packs


def test_a_class_that_is_called_like_a_layer_of_torch_is_named_in_full():
    class Linear(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    model = nn.Sequential(Linear(4, 4))
    with pytest.warns(UserWarning, match="pack will refuse"):
        weights = put_in_q(model, Binary())
    assert f"is a {__name__}." in pack_refused(model, weights)


class Recurrent(nn.Module):
    """A matrix of an LSTM is that of a Linear layer too."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 4), nn.Linear(4, 16, bias=False)
        self.out.weight = self.rnn.weight_ih_l0


def test_weights_of_layers_that_are_no_linear_ones_are_named():
    model = Recurrent()
    text = pack_refused(model, {model.rnn.weight_hh_l0: Binary()})
    assert "layer 'rnn' is a torch.nn.LSTM: its 'weight_hh_l0' cannot be packed" in text
    with pytest.warns(UserWarning, match="pack will refuse 'rnn'"):
        weights = put_in_q(model, Binary(), keep_float=("rnn.weight_hh_l0",))
    assert "its 'weight_ih_l0' cannot be packed" in pack_refused(model, weights)
    bag = nn.Sequential(nn.EmbeddingBag(5, 4))
    assert "is a torch.nn.EmbeddingBag" in pack_refused(bag, {bag[0].weight: Binary()})


def test_an_embedding_that_rewrites_its_weight_is_refused():
    model = nn.Sequential(nn.Embedding(5, 4, max_norm=1.0))
    assert "max_norm" in pack_refused(model, {model[0].weight: Binary()})


class KeptAside(nn.Module):
    """Keeps a layer, its weight or its method where torch does not see it."""

    def __init__(self, keep):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.kept = keep(self.inner[1])

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    "keep",
    [
        lambda m: (m.weight,),
        lambda m: m.forward,
        lambda m: [(torch.relu, partial(m, 1))],
        lambda m: {m},
    ],
    ids=["weight", "method", "partial", "set"],
)
def test_layers_kept_where_nobody_can_replace_them_are_refused(keep, tmp_path):
    """They would go on with float weights, and in a network that was loaded with random ones."""
    model = KeptAside(keep)
    assert "'kept' holds a layer or its weight" in pack_refused(model, put_in_q(model, Binary()))
    plain = KeptAside(lambda m: None)
    save_packed(pack(plain, put_in_q(plain, Binary())), tmp_path / "file")
    before = snapshot(model)
    with pytest.raises(PackedFileError, match="'kept' holds a layer or its weight"):
        load_packed(tmp_path / "file", model)
    assert same_snapshot(snapshot(model), before)


@pytest.mark.parametrize(
    "keep",
    [lambda m: [m], lambda m: {"a": m}, lambda m: [(m, torch.relu)], lambda m: ({"b": [m]},)],
    ids=["list", "dict", "pairs", "nested"],
)
def test_layers_in_plain_containers_are_replaced_there_too(keep, tmp_path):
    def last(kept):
        while not isinstance(kept, nn.Module):
            kept = next(iter(kept.values())) if isinstance(kept, dict) else kept[0]
        return kept

    model = KeptAside(keep)
    save_packed(pack(model, put_in_q(model, Binary())), tmp_path / "file")
    loaded = load_packed(tmp_path / "file", KeptAside(keep))
    for network in (model, loaded):
        assert last(network.kept) is network.inner[1] and isinstance(
            last(network.kept), PackedLinear
        )


def test_weights_in_the_memory_of_others_are_refused():
    """Packed, each would have its own; tied layers hold one parameter."""
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Conv1d(8, 8, 1, bias=False))
    weights = put_in_q(model, Binary())
    model[1].weight.data = model[0].weight.data.view(8, 8, 1)
    assert "lies in the memory of another parameter" in pack_refused(model, weights)
    flat = Binary().project(torch.randn(128))
    model[0].weight.data, model[1].weight.data = flat[:64].view(8, 8), flat[64:].view(8, 8, 1)
    pack(model, weights)  # side by side in one memory is fine


def test_a_pruned_bias_is_refused_until_it_is_permanent():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    weights = put_in_q(model, Binary())
    prune.l1_unstructured(model[0], "bias", 0.5)
    text = pack_refused(model, weights)
    assert "layer '0'" in text and "its bias is computed" in text
    expected = model(torch.ones(1, 4))
    prune.remove(model[0], "bias")
    torch.testing.assert_close(pack(model, weights)(torch.ones(1, 4)), expected)


def test_a_model_that_is_a_layer_itself_is_refused_with_a_way_out():
    model = nn.Linear(4, 4)
    assert "torch.nn.Sequential(layer)" in pack_refused(model, put_in_q(model, Binary()))


def test_weights_of_another_model_are_refused():
    model, stranger = seeded(small_network), seeded(small_network)
    weights = {**put_in_q(model, Binary()), **put_in_q(stranger, Binary(), ("0", "3"))}
    assert "weights of shape [(3, 16)]" in pack_refused(model, weights)
    assert "no weight given" in pack_refused(model, SelectedWeights())


def test_a_packed_model_is_not_packed_again():
    model = seeded(small_network)
    weights = put_in_q(model, Binary())
    pack(model, weights)
    assert "given that no layer of" in pack_refused(model, weights)


def test_layers_of_dtypes_that_cannot_be_packed_are_named():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).double())
    weights = dict.fromkeys([model[0].weight, model[1].weight], Binary())
    with torch.no_grad():
        model[0].weight.copy_(Binary().project(model[0].weight))
    assert "layer '1': its weights are torch." in pack_refused(model, weights)


def test_not_a_number_is_refused_with_the_name_of_its_layer():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    weights = put_in_q(model, Binary())
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    assert "layer '1'" in pack_refused(model, weights)


def test_weights_of_the_meta_device_are_refused():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4))
    weights = select_weights(model, Binary())
    with pytest.raises(ValueError, match="layer '0'"):
        pack(model, weights)
