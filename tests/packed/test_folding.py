"""Batch normalization folded into packed convolutions: the same predictions, fewer tensors."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from binaryrelax import Binary, PerChannel, PerGroup, Ternary, Uniform, pack
from binaryrelax.packed import PackedLayer
from binaryrelax.packed.folding import FoldedNorm, fold
from tests.packed.cases import (
    IMAGES,
    QUANTIZERS,
    Residual,
    inputs,
    packed_copy,
    put_in_q,
    randomize_norm,
    relative_error,
    same_snapshot,
    seeded,
    small_network,
    snapshot,
)


def folded_names(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, FoldedNorm)]


@torch.no_grad()
def check_folded(make, quantizer, x=IMAGES, expected_names=None) -> nn.Module:
    """Folds, compares with the network in float64 and with the names of what should be folded."""
    plain, packed = packed_copy(make, quantizer, fold_batchnorm=True)
    if expected_names is not None:
        assert folded_names(packed) == expected_names
    assert relative_error(packed(x), plain.double()(x.double())) < 1e-5
    for layer in packed.modules():
        assert not isinstance(layer, PackedLayer) or layer.packed_weight.problem() is None
    return packed


def randomized(*modules: nn.Module) -> nn.Sequential:
    for module in modules:
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            randomize_norm(module)
    return nn.Sequential(*modules)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_a_folded_network_predicts_the_same(quantizer):
    packed = check_folded(small_network, quantizer, expected_names=["1", "4"])
    assert packed[0].bias is not None and packed[0].bias.dtype == torch.float32


def test_folding_gives_a_layer_one_scale_per_channel_and_leaves_finer_ones():
    for quantizer, expected in [
        (Binary(), PerChannel()),
        (Binary(granularity=PerChannel()), PerChannel()),
        (Binary(granularity=PerGroup(2)), PerGroup(2)),
    ]:
        packed = check_folded(small_network, quantizer)
        assert packed[0].format.granularity == expected
        assert packed[7].format.granularity == quantizer.granularity  # nothing to fold there


@given(
    gammas=st.lists(
        st.sampled_from([1.0, -1.0, 0.0, -0.0, 1e-20, -1e-20, 1e-42, -3.5, 100.0]),
        min_size=4,
        max_size=4,
    ),
    variances=st.lists(st.sampled_from([0.0, 1e-12, 0.5, 40.0]), min_size=4, max_size=4),
    has_bias=st.booleans(),
    quantizer=st.sampled_from(QUANTIZERS),
)
@settings(max_examples=40)
def test_factors_of_any_sign_and_size_fold(gammas, variances, has_bias, quantizer):
    def make():
        convolution, norm = nn.Conv2d(2, 4, 3, bias=has_bias), nn.BatchNorm2d(4)
        randomize_norm(norm)
        with torch.no_grad():
            norm.weight.copy_(torch.tensor(gammas))
            norm.running_var.copy_(torch.tensor(variances))
        return nn.Sequential(convolution, norm)

    check_folded(make, quantizer, expected_names=["1"])


def test_a_negative_factor_flips_the_codes_and_scales_stay_positive():
    _, packed = packed_copy(small_network, Ternary())
    _, folded = packed_copy(small_network, Ternary(), fold_batchnorm=True)
    gamma = seeded(small_network)[1].weight
    assert (gamma < 0).any() and (gamma > 0).any()
    for row in range(6):
        flipped = 2 - packed[0].packed_weight.indices()[row]
        same = packed[0].packed_weight.indices()[row]
        expected = flipped if gamma[row] < 0 else same
        assert torch.equal(folded[0].packed_weight.indices()[row], expected)
    assert (folded[0].scale >= 0).all()


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: randomized(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4)), inputs(2, 2, 8)),
        (lambda: randomized(nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4)), inputs(2, 2, 4, 4, 4)),
        (lambda: randomized(nn.Conv2d(2, 4, 3), nn.SyncBatchNorm(4)), IMAGES),
        (lambda: randomized(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, affine=False)), IMAGES),
        (lambda: randomized(nn.Conv2d(2, 4, 3, groups=2), nn.BatchNorm2d(4, eps=0.5)), IMAGES),
        (lambda: randomized(nn.Conv2d(2, 4, 4, padding="same"), nn.BatchNorm2d(4)), IMAGES),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_every_kind_of_normalization_folds(make, x):
    check_folded(make, Uniform(bits=3), x, expected_names=["1"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_networks_in_half_precision_fold_to_scales_in_float32(dtype):
    plain, packed = packed_copy(lambda: small_network().to(dtype), Ternary(), fold_batchnorm=True)
    assert packed[0].format.dtype == torch.float32
    with torch.no_grad():
        expected = plain.double()(IMAGES.double())
        assert relative_error(packed(IMAGES.to(dtype)), expected) < 0.05


@pytest.mark.parametrize(
    "make",
    [
        lambda: randomized(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.BatchNorm2d(4)),
        lambda: randomized(nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3)),
        lambda: randomized(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)),
        lambda: randomized(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4)),
        lambda: randomized(nn.Flatten(), nn.Linear(72, 4), nn.BatchNorm1d(4)),
    ],
)
def test_what_does_not_follow_a_convolution_is_left_alone(make):
    check_folded(make, Ternary(), expected_names=[])


class Branches(nn.Module):
    """A convolution whose output a normalization takes, and something else too."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.conv, self.norm = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.other = nn.BatchNorm2d(2)
        randomize_norm(self.norm)
        randomize_norm(self.other)

    def forward(self, x):
        return getattr(self, self.kind)(x)

    def skip(self, x):
        y = self.conv(x)
        return self.norm(y) + y

    def conv_twice(self, x):
        return self.norm(self.conv(x)) + self.other(self.conv(x))

    def norm_twice(self, x):
        return self.norm(self.conv(x)) + self.norm(x)

    def two_norms(self, x):
        y = self.conv(x)
        return self.norm(y) + self.other(y)

    def only_when_training(self, x):
        y = self.conv(x)
        return self.norm(y) if self.training else self.norm(y) + y

    def not_when_training(self, x):
        y = self.conv(x)
        return self.norm(y) + y if self.training else self.norm(y)

    def norm_with_another_argument(self, x):
        return self.norm(input=self.conv(x))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("skip", []),
        ("conv_twice", []),
        ("norm_twice", []),
        ("two_norms", []),
        ("only_when_training", []),
        ("not_when_training", ["norm"]),
        ("norm_with_another_argument", ["norm"]),
    ],
)
def test_only_what_changes_no_other_value_is_folded(kind, names):
    def make():
        return Branches(kind)

    check_folded(make, Ternary(), expected_names=names)
    training, plain = seeded(make).train(), seeded(make)
    packed = pack(training, put_in_q(training, Ternary()), fold_batchnorm=True)
    put_in_q(plain, Ternary())
    assert folded_names(packed) == names  # what holds is what the model does when it predicts
    with torch.no_grad():
        assert relative_error(packed(IMAGES), plain(IMAGES)) < 1e-5


def test_residual_networks_fold_whole():
    check_folded(Residual, Ternary(), expected_names=["bn1", "bn2", "shortcut.1"])


def test_two_convolutions_with_one_weight_fold_each_with_its_own_normalization():
    def make():
        model = randomized(
            nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2)
        )
        model[2].weight = model[0].weight
        return model

    check_folded(make, Binary(), expected_names=["1", "3"])


def test_a_float_convolution_keeps_its_normalization():
    plain, packed = packed_copy(small_network, Binary(), keep_float=("0",), fold_batchnorm=True)
    assert folded_names(packed) == ["4"]
    with torch.no_grad():
        assert relative_error(packed(IMAGES), plain(IMAGES)) < 1e-5


def test_a_model_that_is_partly_packed_folds_the_rest():
    model, plain = seeded(small_network), seeded(small_network)
    put_in_q(plain, Binary())
    first, second = put_in_q(model, Binary(), ("3", "7")), put_in_q(model, Binary(), ("0", "7"))
    pack(model, first)
    pack(model, second, fold_batchnorm=True)
    assert folded_names(model) == ["4"]
    with torch.no_grad():
        assert relative_error(model[:6](IMAGES), plain[:6](IMAGES)) < 1e-5


class Untraceable(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.conv(x))
        return y if y.sum() > 0 else -y


def test_a_model_that_cannot_be_traced_is_refused_and_stays_as_it_was():
    model = seeded(Untraceable).train()
    weights = put_in_q(model, Binary())
    before = snapshot(model)
    with pytest.raises(ValueError, match="cannot trace Untraceable") as caught:
        pack(model, weights, fold_batchnorm=True)
    assert "\n" not in str(caught.value)
    assert same_snapshot(snapshot(model), before)
    assert isinstance(pack(model, weights).norm, nn.BatchNorm2d)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_normalization_that_is_not_finite_is_refused(bad):
    model = seeded(small_network)
    weights = put_in_q(model, Binary())
    model[4].running_mean[0] = bad
    before = snapshot(model)
    with pytest.raises(ValueError, match="layer '3': its batch normalization holds NaN"):
        pack(model, weights, fold_batchnorm=True)
    assert same_snapshot(snapshot(model), before)


def asymmetric(layer: PackedLayer) -> PackedLayer:
    """The same layer with the levels 0 and 1."""
    form = replace(layer.format, codebook=(0.0, 1.0))
    return type(layer)(layer, replace(layer.packed_weight, format=form), layer.bias)


def test_signs_of_an_asymmetric_codebook_cannot_be_folded():
    _, packed = packed_copy(lambda: nn.Sequential(nn.Conv2d(2, 3, 1)), Binary())
    layer, norm, x = asymmetric(packed[0]), nn.BatchNorm2d(3).eval(), inputs(2, 2, 4, 4)
    with torch.no_grad():
        assert relative_error(fold(layer, norm)(x), norm(layer(x))) < 1e-5
        norm.weight[1] = -1
    with pytest.raises(ValueError, match="codebook is not symmetric: pack without fold_batchnorm"):
        fold(layer, norm)


class ReadingItsLayers(nn.Module):
    """Uses a tensor of its convolution or normalization once more, as a tied autoencoder does."""

    def __init__(self, read):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.last, self.last_norm = nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6)
        self.read = read
        randomize_norm(self.norm)
        randomize_norm(self.last_norm)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.read(self, self.last_norm(self.last(x)))


@pytest.mark.parametrize(
    "read",
    [
        lambda m, x: torch.conv_transpose2d(x, m.conv.weight, padding=1),
        lambda m, x: x + m.conv.bias.reshape(-1, 1, 1),
        lambda m, x: x * m.norm.weight.reshape(-1, 1, 1),
        lambda m, x: x + m.norm.running_mean.mean(),
    ],
    ids=["conv.weight", "conv.bias", "norm.weight", "norm.running_mean"],
)
def test_what_the_network_reads_by_itself_is_not_folded(read):
    check_folded(lambda: ReadingItsLayers(read), Ternary(), expected_names=["last_norm"])


def test_a_normalization_whose_forward_was_replaced_is_not_folded():
    def patched():
        norm = nn.BatchNorm2d(4)
        norm.forward = lambda x: nn.BatchNorm2d.forward(norm, x) / 2
        return norm

    check_folded(lambda: randomized(nn.Conv2d(2, 4, 3), patched()), Ternary(), expected_names=[])


def test_a_folded_normalization_still_tells_its_settings():
    class ReadsSettings(ReadingItsLayers):
        def __init__(self):
            super().__init__(lambda m, x: x * m.norm.eps + m.norm.num_features)

    check_folded(ReadsSettings, Ternary(), expected_names=["norm", "last_norm"])
