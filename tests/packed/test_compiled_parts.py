"""Models of which torch.compile has wrapped parts: packed, saved and loaded like plain ones."""

import pytest
import torch
from torch import nn

from binaryrelax import Binary, Ternary, certify, load_packed, pack, save_packed
from binaryrelax.packed import PackedConv2d, PackedLayer, PackedLinear
from tests.packed.cases import (
    IMAGES,
    pack_refused,
    packed_copy,
    put_in_q,
    seeded,
    small_network,
)


@pytest.fixture(autouse=True)
def nothing_stays_compiled():
    """Torch compiles the same code so and so often, in all tests together."""
    yield
    torch.compiler.reset()


def compiled(module):
    return torch.compile(module, backend="eager")


def with_compiled(*names):
    """What makes a small network and compiles modules of it one by one."""

    def make():
        model = seeded(nested_network)
        for name in names:
            model.set_submodule(name, compiled(model.get_submodule(name)))
        return model.eval()

    return make


def nested_network():
    layers = list(small_network())
    return nn.Sequential(nn.Sequential(*layers[:3]), *layers[3:])


PARTS = {
    "nothing": with_compiled(),
    "a convolution": with_compiled("0.0"),
    "a linear layer": with_compiled("5"),
    "a normalization": with_compiled("2"),
    "a block": with_compiled("0"),
    "layers inside of a compiled block": with_compiled("0.0", "0.1", "0"),
    "everything": with_compiled("0.0", "0.1", "0.2", "0", "1", "2", "3", "4", "5"),
}


def packed_file(make, path, **options):
    """The answers of a network with weights in Q, which is then packed and saved."""
    model = make()
    weights = put_in_q(model, Ternary(), keep_float=("5",))
    with torch.no_grad():
        expected = model(IMAGES)
    save_packed(pack(model, weights, **options), path)
    return expected


@pytest.mark.parametrize("name", PARTS)
def test_a_compiled_layer_is_replaced_with_its_wrapper(name):
    model = PARTS[name]()
    weights = put_in_q(model, Ternary(), keep_float=("5",))
    layers = {module for module in model.modules() if module._parameters.get("weight") in weights}
    with torch.no_grad():
        expected = model(IMAGES)
        assert pack(model, weights) is model
        assert torch.allclose(model(IMAGES), expected, atol=1e-6)
    assert not layers & set(model.modules())
    assert type(model[1]) is type(model.get_submodule("0.0")) is PackedConv2d


@pytest.mark.parametrize("name", PARTS)
def test_files_are_the_same_whatever_was_compiled(name, tmp_path):
    packed_file(PARTS["nothing"], tmp_path / "plain")
    packed_file(PARTS[name], tmp_path / "compiled")
    assert (tmp_path / "compiled").read_bytes() == (tmp_path / "plain").read_bytes()
    assert [layer.name for layer in certify(tmp_path / "compiled").layers] == ["0.0", "1"]


@pytest.mark.parametrize("loaded", PARTS)
@pytest.mark.parametrize("runs_before", [False, True])
@torch.no_grad()
def test_a_file_loads_into_a_model_of_which_anything_is_compiled(loaded, runs_before, tmp_path):
    expected = packed_file(PARTS["a convolution"], tmp_path / "file")
    model = PARTS[loaded]()
    for parameter in model.parameters():
        parameter.normal_()
    if runs_before:
        model(IMAGES)
    assert load_packed(tmp_path / "file", model) is model
    assert torch.allclose(model(IMAGES), expected, atol=1e-6)


@pytest.mark.parametrize("loaded", PARTS)
@torch.no_grad()
def test_folded_normalizations_load_into_compiled_ones(loaded, tmp_path):
    expected = packed_file(PARTS["nothing"], tmp_path / "file", fold_batchnorm=True)
    model = load_packed(tmp_path / "file", PARTS[loaded]())
    assert torch.allclose(model(IMAGES), expected, atol=1e-5)


def test_a_layer_under_a_plain_and_a_compiled_name_is_replaced_under_both():
    layer = nn.Linear(4, 4)
    model = nn.ModuleList([layer, compiled(layer), compiled(layer)])
    pack(model, put_in_q(model, Binary()))
    assert type(model[0]) is PackedLinear and model[0] is model[1] is model[2]


def test_refusals_name_a_compiled_layer_as_select_weights_does():
    model = nn.Sequential(compiled(nn.Sequential(nn.Linear(4, 4))))
    weights = put_in_q(model, Binary())
    with torch.no_grad():
        next(iter(weights))[0, 0] += 1
    assert "pack: layer '0.0': its weights are not in Q" in pack_refused(model, weights)


def test_a_packed_model_compiles_part_by_part():
    _, packed = packed_copy(small_network, Ternary())
    with torch.no_grad():
        expected = packed(IMAGES)
        for name, layer in list(packed.named_children()):
            if isinstance(layer, PackedLayer):
                packed.set_submodule(name, torch.compile(layer, backend="aot_eager"))
        assert torch.allclose(packed(IMAGES), expected, atol=1e-6)
