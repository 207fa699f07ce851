"""ONNX files against the packed model that they come from, in ONNX Runtime."""

import sys

import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from binaryrelax import (
    Binary,
    PerChannel,
    PerGroup,
    Ternary,
    Uniform,
    load_packed,
    pack,
    save_packed,
)
from binaryrelax.export import export_onnx
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
ROUNDED = 0.03  # activations of 8 bits


def run(path, *inputs, outputs=None):
    """The outputs of the file in ONNX Runtime, with its own settings."""
    content = path if isinstance(path, bytes) else path.read_bytes()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    fed = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    found = [torch.from_numpy(array) for array in session.run(outputs, fed)]
    return found[0] if len(found) == 1 else found


def weights_in(path, names):
    """The weights that the graph makes, by name."""
    model = onnx.load(path)
    del model.graph.output[:], model.graph.input[:]
    for name in names:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    users = {value: node for node in model.graph.node for value in node.output}
    wanted, kept = list(names), []
    while wanted:  # only what these weights are made of: the input is gone
        node = users.get(wanted.pop())
        if node is not None and node not in kept:
            kept.append(node)
            wanted.extend(node.input)
    nodes = [node for node in model.graph.node if node in kept]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    found = run(model.SerializeToString(), outputs=list(names))
    return dict(zip(names, found if isinstance(found, list) else [found], strict=True))


def assert_same_weights(path, model):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, PackedLayer)}
    found = weights_in(path, [f"{name}.weight" for name in layers])
    for name, layer in layers.items():
        assert same_tensor(found[f"{name}.weight"], layer.weight), name


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize(
    ("name", "quantizer", "fold_batchnorm"),
    [
        ("small-conv", Uniform(bits=3), True),
        ("resnet20", Ternary(granularity=PerChannel()), False),
    ],
    ids=str,
)
def test_networks_agree_with_the_packed_model_on_real_images(
    name, quantizer, fold_batchnorm, tmp_path
):
    model = packed_network(name, quantizer, fold_batchnorm=fold_batchnorm)
    export_onnx(model, images(1), tmp_path / "net.onnx")
    with torch.no_grad():
        assert largest_error(run(tmp_path / "net.onnx", images()), model(images())) < EXACT


@pytest.mark.slow
def test_one_bit_resnet18_takes_less_than_3_mb_and_agrees(tmp_path):
    model = packed_network("resnet18", Binary())
    path = tmp_path / "net.onnx"
    export_onnx(model, images(1), path)
    assert path.stat().st_size < 1_600_000
    with torch.no_grad():
        assert largest_error(run(path, images()), model(images())) < EXACT
    assert_same_weights(path, model)


def test_the_graph_makes_the_weights_of_the_layers_bit_for_bit_and_once(tmp_path):
    model = every_layout()
    path = tmp_path / "net.onnx"
    export_onnx(model, torch.zeros(1, 5, 9, 9), path)
    assert_same_weights(path, model)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    options.log_severity_level = 3  # it warns that the file is for this processor only
    onnxruntime.InferenceSession(path, options)
    assert not {"Gather", "Mul", "Cast", "Slice"} & set(operators(tmp_path / "loaded.onnx"))


def test_weights_of_half_precision_are_those_of_the_layer(tmp_path):
    model = packed(half_precision, Uniform(bits=3))
    x, path = features(45), tmp_path / "net.onnx"
    export_onnx(model, x, path)
    found = weights_in(path, ["0.weight", "1.weight"])
    for name, weight in found.items():
        assert same_tensor(weight, model.get_submodule(name[0]).weight.float())
    assert largest_error(run(path, x), model(x)) < EXACT


def test_awkward_convolutions_agree(tmp_path):
    model = packed(awkward_convolutions, Binary())
    export_onnx(model, images(1), tmp_path / "net.onnx")
    with torch.no_grad():
        assert largest_error(run(tmp_path / "net.onnx", images()), model(images())) < EXACT


def test_compiled_parts_export_under_plain_names(tmp_path):
    model = packed(Perceptron, Uniform(bits=3))
    x, path = features(28), tmp_path / "net.onnx"
    expected = model(x).detach()
    model.first = torch.compile(model.first, backend="eager")
    model.last = torch.compile(nn.Sequential(model.last), backend="eager")
    export_onnx(model, x, path)
    names = [tensor.name for tensor in onnx.load(path).graph.initializer]
    assert {"first.codes", "first.bias", "last.0.codes", "last.0.bias"} <= set(names)
    assert largest_error(run(path, x), expected) < EXACT


def test_hooks_of_packed_layers_are_in_the_graph(tmp_path):
    model = packed(awkward_convolutions, Binary())
    before = model(images()).detach()
    for layer in (model[2], model[4]):  # the second of them is padded by a hook of its own there
        layer.register_forward_pre_hook(lambda _, args: (args[0].square(),))
        layer.register_forward_hook(lambda _, args, output: output + 1)
    export_onnx(model, images(1), tmp_path / "net.onnx")
    with torch.no_grad():
        assert largest_error(model(images()), before) > 0.1
        assert largest_error(run(tmp_path / "net.onnx", images()), model(images())) < EXACT


@pytest.mark.parametrize(
    ("quantizer", "is_matrix"),
    [(Binary(), False), (Ternary(granularity=PerChannel()), True)],
    ids=str,
)
def test_linear_layers_multiply_two_bit_weights(quantizer, is_matrix, tmp_path):
    model = packed(Perceptron, quantizer)
    x = images(4)[:, 0, 14] if is_matrix else images(4)
    path = tmp_path / "net.onnx"
    export_onnx(model, x[:1], path)
    assert operators(path).count("MatMulNBits") == 3
    assert not {"MatMul", "Gemm", "Transpose"} & set(operators(path))
    with torch.no_grad():
        assert largest_error(run(path, x), model(x)) < ROUNDED


def test_scales_of_groups_fit_the_two_bit_product_from_32_on(tmp_path):
    model = groups_of(256, 128, 64, 32, 16)
    x = features(256)
    export_onnx(model, x, tmp_path / "net.onnx")
    assert operators(tmp_path / "net.onnx").count("MatMulNBits") == 4
    assert largest_error(run(tmp_path / "net.onnx", x), model(x)) < ROUNDED


@pytest.mark.parametrize("exact", [False, True])
def test_widths_that_are_no_blocks_agree(exact, tmp_path):
    model = widths(1, 2, 3, 15, 16, 17, 31, 33, 50, 127, 129, 257)
    x = torch.randn(17, 257, generator=torch.Generator().manual_seed(0))
    export_onnx(model, x, tmp_path / "net.onnx", exact=exact)
    for rows in (1, 5, 17):
        with torch.no_grad():
            error = largest_error(run(tmp_path / "net.onnx", x[:rows]), model(x[:rows]))
        assert error < (EXACT if exact else ROUNDED)


@pytest.mark.parametrize("exact", [False, True])
def test_a_network_that_gives_other_outputs_is_refused(exact, tmp_path):
    model = packed(DiffersWhenExported, Ternary())
    with pytest.raises(
        ValueError, match=r"differ by (1|0\.99) of the largest .* nothing was written"
    ):
        export_onnx(model, features(28), tmp_path / "net.onnx", exact=exact)
    assert not list(tmp_path.iterdir())


def test_a_network_that_amplifies_rounding_is_not_refused(tmp_path):
    model = packed(Chaotic, Ternary())
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    export_onnx(model, x, tmp_path / "net.onnx")
    with torch.no_grad():
        assert largest_error(run(tmp_path / "net.onnx", x), model(x)) > ROUNDED


def test_without_onnxruntime_the_file_is_written_unchecked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # how Python notes that there is none
    export_onnx(packed(DiffersWhenExported, Ternary()), features(28), tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").is_file()


def test_networks_of_half_precision_are_written(tmp_path):
    model = packed(lambda: nn.Sequential(nn.Linear(45, 6)).half(), Ternary())
    export_onnx(model, features(45).half(), tmp_path / "net.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"), full_check=True)


@pytest.mark.parametrize(
    ("quantizer", "exact"),
    [(Ternary(), True), (Binary(granularity=PerGroup(4)), False)],
    ids=str,
)
def test_other_and_exact_linear_layers_need_standard_operators_only(quantizer, exact, tmp_path):
    model = packed(Perceptron, quantizer)
    x = features(28)
    path = tmp_path / "net.onnx"
    export_onnx(model, x, path, exact=exact)
    assert {opset.domain for opset in onnx.load(path).opset_import} == {""}
    with torch.no_grad():
        assert largest_error(run(path, x), model(x)) < EXACT
    assert_same_weights(path, model)


def test_what_an_image_gives_does_not_depend_on_the_batch(tmp_path):
    model = nn.Sequential(packed_network("small-conv", Ternary()), packed(_classifier, Binary()))
    path = tmp_path / "net.onnx"
    export_onnx(model, images(3), path)
    together = run(path, images())
    one_by_one = torch.cat([run(path, image[None]) for image in images()])
    assert largest_error(one_by_one, together) < EXACT


def _classifier():
    return nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 10))


def test_a_tied_weight_is_stored_once(tmp_path):
    model = packed(Tied, Ternary())
    x = features(64)
    export_onnx(model, x, tmp_path / "net.onnx")
    stored = [t for t in onnx.load(tmp_path / "net.onnx").graph.initializer if "codes" in t.name]
    assert len(stored) == 1 and operators(tmp_path / "net.onnx").count("MatMulNBits") == 3
    with torch.no_grad():
        assert largest_error(run(tmp_path / "net.onnx", x), model(x)) < ROUNDED


def test_several_inputs_and_outputs(tmp_path):
    model = packed(TwoInputs, Binary())
    before = snapshot(model)
    x, y = features(8), features(18).reshape(5, 2, 9)
    path = tmp_path / "net.onnx"
    export_onnx(model, (x[:1], y[:1]), path)
    assert same_snapshot(snapshot(model), before), "the export changed the model"
    assert b".py" not in path.read_bytes(), "the file tells of source code"
    graph = onnx.load(path).graph
    parts = {
        f"{layer}.{part}" for layer in ("left", "right") for part in ("codes", "scale", "bias")
    }
    assert parts <= {tensor.name for tensor in graph.initializer}
    assert [v.name for v in graph.input] == ["input_0", "input_1"]
    assert [v.name for v in graph.output] == ["output_0", "output_1"]
    for found, expected in zip(run(path, x, y), model(x, y), strict=True):
        assert largest_error(found, expected) < ROUNDED


def test_a_loaded_network_exports_the_same_file(tmp_path):
    model = packed(Perceptron, Ternary())
    save_packed(model, tmp_path / "net.safetensors")
    again = load_packed(tmp_path / "net.safetensors", Perceptron())
    for name, network in (("a", model), ("b", again)):
        export_onnx(network, features(28), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_model_without_packed_layers_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no layer of Perceptron is packed; pack\(model"):
        export_onnx(seeded(Perceptron), features(28), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [torch.zeros(0, 28), torch.tensor(1.0), [1, 2]], ids=str)
def test_examples_without_rows_are_refused(wrong, tmp_path):
    with pytest.raises(ValueError, match="at least one row"):
        export_onnx(packed(Perceptron, Ternary()), wrong, tmp_path / "net.onnx")


class _DependsOnValues(Perceptron):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


def test_a_model_that_torch_cannot_export_is_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="torch cannot export _DependsOnValues") as caught:
        export_onnx(packed(_DependsOnValues, Ternary()), features(28), tmp_path / "net.onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match=r"absent/net\.onnx cannot be written"):
        export_onnx(packed(Perceptron, Ternary()), features(28), tmp_path / "absent/net.onnx")


@pytest.mark.parametrize("missing", ["onnx", "onnxscript"])
def test_a_missing_dependency_names_the_extra(missing, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # how Python notes that there is none
    with pytest.raises(ImportError) as caught:
        export_onnx(seeded(Perceptron), features(28), tmp_path / "net.onnx")
    assert str(caught.value) == (
        f"export to onnx needs the module {missing}: pip install '.[onnx]' in the source folder"
    )


def test_a_weight_that_is_also_read_transposed_agrees(tmp_path):
    model, x = packed(Mirrored, Ternary(granularity=PerChannel())), features(10)[:5]
    export_onnx(model, x, tmp_path / "net.onnx")
    assert largest_error(run(tmp_path / "net.onnx", x), model(x).detach()) < EXACT


def test_a_tied_embedding_is_stored_once(tmp_path):
    model, tokens = packed(Language, Ternary()), torch.arange(11)
    export_onnx(model, tokens, tmp_path / "net.onnx")
    assert largest_error(run(tmp_path / "net.onnx", tokens), model(tokens)) < EXACT
    names = [tensor.name for tensor in onnx.load(tmp_path / "net.onnx").graph.initializer]
    assert [name for name in names if name.endswith(".codes")] == ["embedding.codes"]


def test_a_model_that_keeps_results_of_its_last_run_is_exported(tmp_path):
    """A pruned layer does: its weight is computed from others, with their gradient."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    prune.l1_unstructured(model[1], "weight", 0.3)
    pack(model, put_in_q(model, Binary(), keep_float=("1",)))
    x = features(6)
    expected = model(x).detach()
    export_onnx(model, x, tmp_path / "net.onnx", exact=True)
    assert largest_error(run(tmp_path / "net.onnx", x), expected) < EXACT


@pytest.mark.parametrize("make", [lambda: nn.Conv2d(2, 4, 3), lambda: nn.Linear(6, 4)])
def test_what_onnx_has_no_bfloat16_for_is_refused_in_one_line(make, tmp_path):
    model = nn.Sequential(make()).bfloat16()
    pack(model, put_in_q(model, Binary()))
    x = torch.ones(2, 2, 6, 6, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"export_onnx: .*export model\.float\(\)") as caught:
        export_onnx(model, x, tmp_path / "net.onnx")
    assert "\n" not in str(caught.value) and not (tmp_path / "net.onnx").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_run_time_that_crashes_takes_nobody_along(tmp_path):
    """ONNX Runtime 1.31 dies of attention in half precision on some processors, packed or not."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(57, 3, batch_first=True)
            self.last = nn.Linear(57, 1)

        def forward(self, x):
            return self.last(self.attention(x, x, x, need_weights=False)[0])

    model = Attention().half().eval()
    pack(model, put_in_q(model, Ternary(), keep_float=("attention",)))
    x, path = torch.randn(2, 5, 57).half(), tmp_path / "net.onnx"
    try:
        export_onnx(model, x, path)
    except ValueError as error:
        assert "ONNX Runtime cannot run" in str(error) and "died of SIG" in str(error)
        assert not path.exists()
    else:
        assert largest_error(run(path, x).float(), model(x).float().detach()) < ROUNDED


def test_an_input_without_rows_is_refused_in_one_line(tmp_path):
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x, positions):
            return self.layer(x + positions)

    model = packed(Positions, Ternary())
    with pytest.raises(ValueError, match="takes the example and no other number of rows"):
        export_onnx(model, (torch.randn(4, 7, 8), torch.randn(7, 8)), tmp_path / "net.onnx")


def test_layers_that_forward_takes_from_a_plain_list_are_exported(tmp_path):
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)
            self.stages = [(self.first, torch.relu), (self.second, torch.tanh)]

        def forward(self, x):
            for layer, activation in self.stages:
                x = activation(layer(x))
            return x

    model, x = packed(Listed, Ternary()), features(6)
    export_onnx(model, x, tmp_path / "net.onnx", exact=True)
    assert largest_error(run(tmp_path / "net.onnx", x), model(x).detach()) < EXACT
