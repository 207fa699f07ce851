"""What cannot be packed is refused with one line, and the model stays as it was."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from binaryrelax import (
    Binary,
    SelectedWeights,
    Ternary,
    pack,
    select_weights,
)
from tests.packed.cases import (
    pack_refused,
    put_in_q,
    seeded,
    small_network,
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


@pytest.mark.parametrize("make", [lambda: Louder(4, 4), lambda: Standardized(4, 4, 1)])
def test_layers_that_do_something_else_are_refused(make):
    model = nn.Sequential(nn.Linear(4, 4), make())
    text = pack_refused(model, put_in_q(model, Binary()))
    assert f"layer '1' is a {type(model[1]).__name__}" in text and "keep_float" in text


def test_a_pruned_bias_is_refused_until_it_is_permanent():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    weights = put_in_q(model, Binary())
    prune.l1_unstructured(model[0], "bias", 0.5)
    assert "the bias of layer '0'" in pack_refused(model, weights)
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
