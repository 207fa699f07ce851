"""OpenVINO models against the packed model that they come from, in OpenVINO's CPU plugin."""

import sys
from functools import cache

import openvino
import pytest
import torch
from torch import nn

from binaryrelax import Binary, PerChannel, PerGroup, Ternary, Uniform, pack
from binaryrelax.export import export_openvino
from binaryrelax.packed import PackedLayer
from tests.export.exported import (
    Chaotic,
    DiffersWhenExported,
    Mirrored,
    Perceptron,
    Tied,
    TwoInputs,
    awkward_convolutions,
    every_layout,
    features,
    group_sizes,
    groups_of,
    half_precision,
    images,
    largest_error,
    packed,
    packed_network,
    widths,
)
from tests.packed.cases import Language, put_in_q, same_snapshot, same_tensor, seeded, snapshot

EXACT = 5e-6  # float32 rounding, as a share of the largest output
ROUNDED = 0.03  # activations of 8 bits, or of bfloat16
DEFAULTS: dict[str, str] = {}  # bfloat16 on processors that have it
FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}


@cache
def core():
    """One for all tests: of two that overlap, the first to go breaks the handling of signals."""
    return openvino.Core()


def compiled(model, settings=FLOAT32):
    """For the CPU: a path, or a model."""
    return core().compile_model(model, "CPU", settings)


def run(path, *inputs, settings=FLOAT32):
    network = path if isinstance(path, openvino.CompiledModel) else compiled(path, settings)
    found = [torch.from_numpy(array.copy()) for array in network(list(inputs)).to_tuple()]
    return found[0] if len(found) == 1 else found


def assert_agrees(path, model, x, error, rows=()):
    """With OpenVINO's own settings up to rounding, and in float32 up to ``error``."""
    with torch.no_grad():
        expected = model(x)
    for settings, allowed in ((DEFAULTS, ROUNDED), (FLOAT32, error)):
        network = compiled(path, settings)
        for count in (*rows, len(x)):
            found = run(network, x[:count])
            assert largest_error(found, expected[:count]) < allowed, (settings, count)


def assert_same_weights(path, model):
    """The weights that the graph makes are those of the layers, bit for bit."""
    nodes = {op.get_friendly_name(): op for op in core().read_model(path).get_ops()}
    layers = {n: m for n, m in model.named_modules() if isinstance(m, PackedLayer)}
    outputs = [nodes[f"{name}.weight"].output(0) for name in layers]
    found = run(compiled(openvino.Model(outputs, [])))
    for (name, layer), weight in zip(layers.items(), found, strict=True):
        assert same_tensor(weight, layer.weight), name


def constant_types(path):
    """The types of the packed weights, by layer."""
    ops = core().read_model(path).get_ops()
    found = {op.get_friendly_name(): op.get_element_type().get_type_name() for op in ops}
    return {name.removesuffix(".codes"): t for name, t in found.items() if name.endswith(".codes")}


def products(path):
    """How the Linear layers' weights look when they are multiplied."""
    ops = [op.get_rt_info() for op in compiled(path).get_runtime_model().get_ops()]
    linear = [info for info in ops if info["layerType"].astype(str) == "FullyConnected"]
    return [info["runtimePrecision"].astype(str) for info in linear]


@pytest.mark.parametrize(
    ("name", "quantizer", "fold_batchnorm"),
    [
        ("small-conv", Uniform(bits=3), False),
        pytest.param("resnet20", Ternary(granularity=PerChannel()), False, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_networks_agree_with_the_packed_model_on_real_images(
    name, quantizer, fold_batchnorm, tmp_path
):
    model = packed_network(name, quantizer, fold_batchnorm=fold_batchnorm)
    export_openvino(model, images(1), tmp_path / "net.xml")
    assert_agrees(tmp_path / "net.xml", model, images(), EXACT)


@pytest.mark.slow
def test_one_bit_resnet18_takes_less_than_3_mb_and_agrees(tmp_path):
    model = packed_network("resnet18", Binary())
    path = tmp_path / "net.xml"
    export_openvino(model, images(1), path)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 1_800_000
    assert set(constant_types(path).values()) == {"u1"}
    assert_agrees(path, model, images(), EXACT)
    assert_same_weights(path, model)


def test_the_graph_makes_the_weights_of_the_layers_bit_for_bit(tmp_path):
    model = every_layout()
    path = tmp_path / "net.xml"
    export_openvino(model, torch.zeros(1, 5, 9, 9), path)
    types = [*constant_types(path).values()]
    assert (types.count("u1"), types.count("u2"), types.count("u8")) == (3, 2, 5)
    assert_same_weights(path, model)


def test_weights_of_half_precision_are_those_of_the_layer(tmp_path):
    model = packed(half_precision, Uniform(bits=3))
    x = features(45)
    export_openvino(model, x, tmp_path / "net.xml")
    assert_agrees(tmp_path / "net.xml", model, x, EXACT)


def test_awkward_convolutions_agree(tmp_path):
    model = packed(awkward_convolutions, Ternary())
    export_openvino(model, images(1), tmp_path / "net.xml")
    assert_agrees(tmp_path / "net.xml", model, images(), EXACT)


@pytest.mark.parametrize(
    ("quantizer", "is_matrix"), [(Binary(), True), (Ternary(), False)], ids=str
)
def test_linear_layers_multiply_two_bit_weights(quantizer, is_matrix, tmp_path):
    model = packed(Perceptron, quantizer)
    x = features(28) if is_matrix else images(4)
    path = tmp_path / "net.xml"
    export_openvino(model, x[:1], path)
    assert constant_types(path) == {"first": "u2", "second": "u2", "last": "u2"}
    assert products(path) == ["u4", "u4", "u4"]
    assert_agrees(path, model, x, ROUNDED)
    assert_same_weights(path, model)


def test_scales_of_groups(tmp_path):
    model = groups_of(256, 128, 32, 8)
    x = features(256)
    export_openvino(model, x, tmp_path / "net.xml")
    assert_agrees(tmp_path / "net.xml", model, x, ROUNDED)
    assert_same_weights(tmp_path / "net.xml", model)


def rows(count, width):
    """So many rows of noise, the same every time."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("exact", [False, True])
def test_rows_that_are_not_whole_bytes_agree(exact, tmp_path):
    """OpenVINO's products with u2 weights, and those with u4, give noise from five rows on."""
    model, x = widths(1, 2, 3, 15, 17, 18, 19, 29, 30, 31, 33, 50, 51, 70), rows(17, 70)
    export_openvino(model, x, tmp_path / "net.xml", exact=exact)
    assert_agrees(tmp_path / "net.xml", model, x, EXACT if exact else ROUNDED, rows=(1, 2, 5))
    assert_same_weights(tmp_path / "net.xml", model)


@pytest.mark.parametrize("exact", [False, True])
def test_groups_that_are_no_blocks_agree(exact, tmp_path):
    """OpenVINO's products take wrong scales for them, or read what is behind the scales."""
    model, x = group_sizes(3, 5, 6, 9, 10, 16, 32, 36, 40, 48, 64, 72, 96), rows(17, 288)
    export_openvino(model, x, tmp_path / "net.xml", exact=exact)
    assert_agrees(tmp_path / "net.xml", model, x, EXACT if exact else ROUNDED, rows=(1, 5))
    assert products(tmp_path / "net.xml").count("u4") == 3


def test_wide_layers_run_with_openvinos_own_settings(tmp_path):
    """Products with u2 weights of 32 inputs or more die in bfloat16."""
    model, x = widths(32, 64, 128), rows(5, 128)
    export_openvino(model, x, tmp_path / "net.xml")
    found = run(tmp_path / "net.xml", x, settings=DEFAULTS)
    with torch.no_grad():
        assert largest_error(found, model(x)) < ROUNDED
    assert products(tmp_path / "net.xml") == ["u4", "u4", "u4"]


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("make", "sizes"),
    [(widths, range(1, 80)), (group_sizes, (*range(1, 33), *range(34, 134, 6), 64, 128))],
    ids=["widths", "groups"],
)
def test_every_size_agrees(make, sizes, exact, tmp_path):
    model = make(*sizes)
    x = rows(17, max(layer.in_features for layer in model))
    export_openvino(model, x, tmp_path / "net.xml", exact=exact)
    error = EXACT if exact else ROUNDED
    assert_agrees(tmp_path / "net.xml", model, x, error, rows=(1, 2, 5, 8))


@pytest.mark.parametrize("exact", [False, True])
def test_a_network_that_gives_other_outputs_is_refused(exact, tmp_path):
    model = packed(DiffersWhenExported, Ternary())
    with pytest.raises(
        ValueError, match=r"differ by (1|0\.99) of the largest .* nothing was written"
    ):
        export_openvino(model, features(28), tmp_path / "net.xml", exact=exact)
    assert not list(tmp_path.iterdir())


def test_a_network_that_amplifies_rounding_is_not_refused(tmp_path):
    model, x = packed(Chaotic, Ternary()), rows(5, 64)
    export_openvino(model, x, tmp_path / "net.xml")
    with torch.no_grad():
        assert largest_error(run(tmp_path / "net.xml", x, settings=DEFAULTS), model(x)) > ROUNDED


def test_exact_rounds_no_activation(tmp_path):
    model = packed(Perceptron, Ternary())
    x = features(28)
    export_openvino(model, x, tmp_path / "net.xml", exact=True)
    assert_agrees(tmp_path / "net.xml", model, x, EXACT)


def test_what_an_image_gives_does_not_depend_on_the_batch(tmp_path):
    model = packed(Tied, Binary(granularity=PerGroup(32)))
    x = features(64)
    export_openvino(model, x, tmp_path / "net.xml")
    assert_agrees(tmp_path / "net.xml", model, x, ROUNDED)
    for settings, allowed in ((DEFAULTS, ROUNDED), (FLOAT32, EXACT)):
        network = compiled(tmp_path / "net.xml", settings)
        one_by_one = torch.cat([run(network, row[None]) for row in x])
        assert largest_error(one_by_one, run(network, x)) < allowed


def test_several_inputs_and_outputs_leave_the_model_as_it_was(tmp_path):
    model = packed(TwoInputs, Binary())
    before = snapshot(model)
    x, y = features(8), features(18).reshape(5, 2, 9)
    export_openvino(model, (x[:1], y[:1]), tmp_path / "net.xml")
    for settings in (DEFAULTS, FLOAT32):
        outputs = run(tmp_path / "net.xml", x, y, settings=settings)
        for found, expected in zip(outputs, model(x, y), strict=True):
            assert largest_error(found, expected) < ROUNDED
    assert same_snapshot(snapshot(model), before)


def test_another_ending_and_a_model_without_packed_layers_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"net\.bin must end in \.xml"):
        export_openvino(packed(Perceptron, Ternary()), features(28), tmp_path / "net.bin")
    with pytest.raises(ValueError, match="no layer of Perceptron is packed"):
        export_openvino(seeded(Perceptron), features(28), tmp_path / "net.xml")
    assert not list(tmp_path.iterdir())


def test_no_graph_stays_beside_weights_that_it_does_not_fit(tmp_path):
    """The second file cannot be written: a folder is in its place."""
    (tmp_path / "net.xml").mkdir()
    with pytest.raises(OSError, match=r"net\.xml cannot be written"):
        export_openvino(packed(Perceptron, Ternary()), features(28), tmp_path / "net.xml")
    assert not (tmp_path / "net.xml").is_file()


@pytest.mark.parametrize("missing", ["openvino", "onnx", "onnxscript"])
def test_a_missing_dependency_names_the_extra(missing, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # how Python notes that there is none
    with pytest.raises(ImportError) as caught:
        export_openvino(seeded(Perceptron), features(28), tmp_path / "net.xml")
    assert str(caught.value) == (
        f"export to openvino needs the module {missing}: "
        "pip install '.[openvino]' in the source folder"
    )


@pytest.mark.parametrize("exact", [False, True])
def test_a_weight_that_is_also_read_transposed_does_not_kill_the_process(exact, tmp_path):
    model, x = packed(Mirrored, Ternary(granularity=PerChannel())), features(10)[:5]
    export_openvino(model, x, tmp_path / "net.xml", exact=exact)
    assert_agrees(tmp_path / "net.xml", model, x, EXACT)


def test_a_tied_embedding_is_stored_once(tmp_path):
    model, tokens = packed(Language, Ternary()), torch.arange(11)
    export_openvino(model, tokens, tmp_path / "net.xml")
    assert list(constant_types(tmp_path / "net.xml")) == ["embedding"]
    assert_agrees(tmp_path / "net.xml", model, tokens, EXACT)


def test_bfloat16_in_float_layers_is_no_reason_to_refuse(tmp_path):
    """OpenVINO's default rounds all layers; a large bias before a normalization shows it."""

    def make():
        model = nn.Sequential(nn.Linear(28, 28), nn.LayerNorm(28), nn.Linear(28, 5))
        nn.init.constant_(model[0].bias, 50.0)
        return model

    model = seeded(make)
    pack(model, put_in_q(model, Ternary(), keep_float=("0",)))
    export_openvino(model, features(28), tmp_path / "net.xml", exact=True)
    x = features(28)
    with torch.no_grad():
        found = run(tmp_path / "net.xml", x, settings=FLOAT32)
        assert largest_error(found, model(x)) < 1e-4
