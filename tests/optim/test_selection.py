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
