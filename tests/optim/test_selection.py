import pytest
import torch
from torch import nn

from binaryrelax import Binary, PerChannel, PerGroup, Ternary, select_weights


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 4))
        self.fc = nn.Linear(4, 2)


def names(model, *args, **kwargs):
    return sorted(select_weights(model, Binary(), *args, **kwargs).names.values())


def test_takes_linear_and_conv_weights_and_nothing_else():
    model = Block()
    selected = select_weights(model, Ternary())
    assert sorted(selected.names.values()) == [
        "body.0.weight", "body.2.weight", "fc.weight", "stem.weight",
    ]  # fmt: skip
    assert set(selected) == {model.stem.weight, model.fc.weight} | {
        model.body[0].weight, model.body[2].weight,
    }  # fmt: skip
    assert all(quantizer == Ternary() for quantizer in selected.values())
    assert isinstance(selected, dict)


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (("fc",), ["body.0.weight", "body.2.weight", "stem.weight"]),
        ("fc", ["body.0.weight", "body.2.weight", "stem.weight"]),
        (("body",), ["fc.weight", "stem.weight"]),
        (("body.*",), ["fc.weight", "stem.weight"]),
        (("bo*.0", "s?em"), ["body.2.weight", "fc.weight"]),
    ],
)
def test_keep_float_patterns(keep, left):
    assert names(Block(), keep_float=keep) == left


def test_wrapper_prefixes_are_stripped():
    compiled = torch.compile(Block())
    wrapped = nn.DataParallel(compiled)
    for model in (compiled, wrapped):
        assert names(model, keep_float=("fc", "body")) == ["stem.weight"]


def test_a_part_that_is_called_as_wrappers_call_theirs_keeps_its_name():
    model = nn.Module()
    model.fc, model.module = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4))
    model.module.fc = nn.Linear(4, 2)
    expected = ["fc.weight", "module.0.weight", "module.fc.weight"]
    for wrap in (lambda m: m, torch.compile, nn.DataParallel):
        assert names(wrap(model)) == expected
        assert names(wrap(model), keep_float=("fc",)) == expected[1:]


def test_compiled_parts_keep_their_names():
    model = Block()
    model.body = torch.compile(model.body)
    assert names(model) == names(Block())
    assert names(model, keep_float=("body.2", "stem")) == ["body.0.weight", "fc.weight"]


def test_a_pattern_that_matches_nothing_lists_the_layers():
    with pytest.raises(ValueError, match=r"\['classifier'\]; layers: \['stem', 'body.0'"):
        select_weights(Block(), Binary(), keep_float=("classifier", "fc"))


def test_a_tied_weight_is_one_weight_and_float_if_any_name_is_kept():
    model = Block()
    model.head = nn.Linear(4, 2)
    model.head.weight = model.fc.weight
    assert names(model).count("fc.weight") == 1 and "head.weight" not in names(model)
    assert "fc.weight" not in names(model, keep_float=("head",))
    model.again = model.stem  # the same module twice
    assert "stem.weight" not in names(model, keep_float=("again",))


def test_a_tied_embedding_is_kept_by_its_own_name():
    model = nn.Module()
    model.embed, model.head, model.body = nn.Embedding(5, 4), nn.Linear(4, 5), nn.Linear(4, 4)
    model.head.weight = model.embed.weight
    assert names(model) == ["body.weight", "head.weight"]
    assert names(model, keep_float=("embed",)) == ["body.weight"]


def test_transposed_convolutions_only_per_layer():
    model = nn.Sequential(nn.ConvTranspose2d(4, 6, 3))
    assert names(model) == ["0.weight"]
    for granularity in (PerChannel(), PerGroup(9)):
        with pytest.raises(ValueError, match=r"'0' is a ConvTranspose2d.*PerLayer\(\)"):
            select_weights(model, Binary(granularity=granularity))


class Speech(nn.Module):
    """Matrices in a recurrent layer, in attention and on their own, beside two Linear layers."""

    def __init__(self):
        super().__init__()
        self.lstm, self.attention = nn.LSTM(6, 8), nn.MultiheadAttention(8, 2)
        self.position = nn.Parameter(torch.zeros(1, 5, 8))
        self.fc = nn.Linear(8, 3)


def test_matrices_that_stay_float_unasked_are_counted_and_named():
    with pytest.warns(UserWarning) as caught:
        selected = select_weights(torch.compile(Speech()), Binary())
    assert sorted(selected.names.values()) == ["attention.out_proj.weight", "fc.weight"]
    (said,) = [str(warning.message) for warning in caught]
    left, taken = 32 * 6 + 32 * 8 + 24 * 8 + 40, 64 + 24
    assert said.startswith(f"select_weights: {left} of {left + taken} matrix weights stay float (")
    assert "(position, lstm.weight_ih_l0, lstm.weight_hh_l0, attention.in_proj_weight):" in said
    assert "keep_float" in said and "nn.Linear" in said and "\n" not in said
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (("lstm", "attention.in_proj_weight", "position"), ["attention.out_proj", "fc"]),
        (("lstm.weight_??_l0", "*.in_proj_weight", "pos*"), ["attention.out_proj", "fc"]),
        (("lstm", "attention", "position"), ["fc"]),
    ],
)
def test_matrices_kept_on_purpose_are_not_mentioned(keep, left):
    assert names(Speech(), keep_float=keep) == [f"{name}.weight" for name in left]


def test_other_matrices_may_be_kept_in_part():
    with pytest.warns(UserWarning, match=r"232 of 320 .*\(position, attention.in_proj_weight\)"):
        names(Speech(), keep_float=("lstm",))


def test_matrices_with_two_names_are_counted_once_and_kept_by_either():
    model = nn.Module()
    model.first, model.second, model.fc = nn.LSTM(4, 4), nn.LSTM(4, 4), nn.Linear(4, 4)
    model.second.weight_hh_l0 = model.first.weight_hh_l0
    model.again = model.first
    with pytest.warns(UserWarning, match=r"192 of 208 .*_ih_l0, first.weight_hh_l0, second.weig"):
        names(model)
    with pytest.warns(UserWarning, match=r"64 of 80 .*\(first.weight_ih_l0\)"):
        names(model, keep_float=("second",))
    assert names(model, keep_float=("second", "again")) == ["fc.weight"]


def test_what_multiplies_no_vector_is_not_mentioned():
    """Tables to look up, factors of single activations, and vectors of several dimensions."""
    model = nn.Module()
    model.embedding, model.bag = nn.Embedding(5, 4), nn.EmbeddingBag(5, 4)
    model.norm, model.root = nn.LayerNorm((3, 4)), nn.RMSNorm((3, 4))
    model.token, model.gains = nn.Parameter(torch.ones(1, 1, 4)), nn.Parameter(torch.ones(4, 1, 1))
    model.lazy, model.fc = nn.LazyBatchNorm1d(), nn.Linear(4, 4)
    assert names(model) == ["fc.weight"]


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="no Linear or Conv layer is left"):
        select_weights(Block(), Binary(), keep_float=("*",))
    with pytest.raises(ValueError, match="no Linear or Conv layer"):
        select_weights(nn.ReLU(), Binary())


def test_a_bare_layer_is_a_model():
    assert names(nn.Linear(3, 2)) == ["weight"]
    assert names(torch.compile(nn.Linear(3, 2))) == ["weight"]


def test_computed_and_lazy_weights_are_refused_by_name():
    model = Block()
    nn.utils.parametrizations.weight_norm(model.stem)
    with pytest.raises(ValueError, match="'stem' computes its weight"):
        select_weights(model, Binary())
    assert names(model, keep_float=("stem", "body")) == ["fc.weight"]
    model.fc = nn.Linear(4, 2, bias=False)  # a missing bias must not pass for the missing weight
    with pytest.raises(ValueError, match="'stem' computes its weight"):
        select_weights(model, Binary(), keep_float=("fc",))
    with pytest.raises(ValueError, match="'0' has no weight yet"):
        select_weights(nn.Sequential(nn.LazyLinear(3)), Binary())


def test_quantizer_must_be_one():
    with pytest.raises(ValueError, match=r"select_weights.*quantizer='binary'"):
        select_weights(Block(), "binary")


class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


@pytest.mark.parametrize(
    ("wrapped", "keep"),
    [
        (Wrapper(Block()), "fc"),
        (Wrapper(Wrapper(Block())), "fc"),
        (nn.Sequential(nn.DataParallel(Block())), "0.fc"),
        (nn.Sequential(nn.DataParallel(Block())), "0.module.fc"),
        (nn.ModuleDict({"module": Block()}), "module.fc"),
    ],
)
def test_patterns_may_leave_the_parts_of_wrappers_out(wrapped, keep):
    everything, left = names(wrapped), names(wrapped, (keep,))
    assert left == [name for name in everything if not name.endswith("fc.weight")]
    assert len(left) == 3


def test_joined_selections_keep_their_names():
    model = Block()
    binary, ternary = select_weights(model, Binary()), select_weights(model.body, Ternary())
    joined = binary | ternary
    assert sorted(joined.names.values()) == names(model)
    assert joined[model.body[0].weight] == Ternary() and joined[model.stem.weight] == Binary()
    assert binary[model.body[0].weight] == Binary()
    binary |= ternary
    assert binary == joined and binary.names == joined.names
    ternary.update(select_weights(model.fc, Ternary()))
    assert sorted(ternary.names.values()) == ["0.weight", "2.weight", "weight"]


def test_a_number_is_no_name_of_a_layer():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"keep_float=\(1,\).*1 is no name.*strings"):
        select_weights(model, Binary(), keep_float=(1,))


def test_a_selection_shows_its_layers_not_their_tensors():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    shown = repr(select_weights(model, Binary(), keep_float=("1",)))
    assert shown == "{'0.weight': Binary()}"


class Transposed(nn.Module):
    """A layer that multiplies as GPT-2's does: its weight has a row for each input."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))

    def forward(self, x):
        return x @ self.weight


def test_layers_of_other_libraries_are_selected_where_named():
    model = nn.Sequential(Transposed(8, 4), nn.Linear(4, 2), Transposed(2, 6))
    with pytest.warns(UserWarning, match=r"pack will refuse '0'; '0' is a .*Transposed"):
        weights = select_weights(model, Ternary(), keep_float=("2",), also=(Transposed,))
    assert list(weights.names.values()) == ["0.weight", "1.weight"]
    per_channel = Ternary(granularity=PerChannel())
    with pytest.raises(ValueError, match=r"'0' is a Transposed, whose dimension 0 is its input"):
        select_weights(model, per_channel, also=(Transposed,))
