"""Files for the native runtime against torch: operation by operation, and whole networks."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from binaryrelax import (
    Binary,
    PerChannel,
    PerGroup,
    Ternary,
    certify,
    export_native,
    pack,
    save_packed,
)
from binaryrelax.export.native import checked_program
from tests.export.exported import WEIGHTS, Mirrored, images, packed_network
from tests.export.native_cases import (
    OF_MAPS,
    OF_NUMBERS,
    Between,
    BetweenVectors,
    RoundedInterpreter,
    float_and_packed,
    largest_error,
    loaded,
    maps,
    native,
    outputs,
    vectors,
)
from tests.packed.cases import Residual, Tied, put_in_q, seeded

EXACT = 3e-6  # float32 rounding, as a share of the largest output
REFERENCE = 4e-3  # a byte of an activation may be the next one, where rounding decides
ROUNDED = 0.05  # activations of 8 bits
QUANTIZERS = (Binary(), Ternary(granularity=PerChannel()))

CASES = {
    **{f"{name} of maps": lambda c=calls: Between(c) for name, calls in OF_NUMBERS.items()},
    **{
        f"{name} of vectors": lambda c=calls: BetweenVectors(c)
        for name, calls in OF_NUMBERS.items()
    },
    **{name: lambda n=n, c=calls: Between(c, n) for name, (n, calls) in OF_MAPS.items()},
}


def inputs_for(name, count=4):
    return vectors(count) if "of vectors" in name else maps(count)


def assert_agrees(make, quantizer, x, folder, **options):
    """In mode exact with torch; in mode fast with the reference, and roughly with torch.

    So do all instruction sets, and on what is not finite.
    """
    plain, packed = float_and_packed(make, quantizer, **options)
    expected = outputs(plain, x)
    exact = loaded_by_all(packed, x[:2], folder, mode="exact")
    assert all(largest_error(outputs(network, x), expected) < EXACT for network in exact)
    reference = RoundedInterpreter(checked_program(packed, x[:2]))(x)
    fast = loaded_by_all(packed, x[:2], folder)
    assert largest_error(the_same_outputs(fast, x), reference) < REFERENCE
    calibrated = loaded_by_all(packed, x[:2], folder, calibration=x)
    assert largest_error(the_same_outputs(calibrated, x), expected) < ROUNDED
    assert_not_finite_as_torch(x, plain, exact, [*fast, *calibrated])


def loaded_by_all(model, example, folder, **options):
    """The network as every instruction set runs it."""
    export_native(model, example, folder / "net.brx", **options)
    names = native.instruction_sets()
    return [native.load(folder / "net.brx", threads=1, instruction_set=name) for name in names]


def the_same_outputs(networks, x):
    """What all of them give, bit for bit."""
    first, *others = (outputs(network, x) for network in networks)
    for found in others:
        assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))
    return first


def assert_not_finite_as_torch(x, plain, exact, fast):
    """Where an image holds what is not finite: in the same places, or, where rounded, in more."""
    for bad in (float("nan"), float("inf"), -float("inf")):
        broken = x.clone()
        broken[1].flatten()[3] = bad
        (expected,) = outputs(plain, broken)
        for network in exact:
            (found,) = outputs(network, broken)
            assert torch.equal(found.isfinite(), expected.isfinite())
            assert torch.equal(found.isnan(), expected.isnan())
        for network in fast:
            (found,) = outputs(network, broken)
            assert not found[~expected.isfinite()].isfinite().any()
            assert found[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("name", CASES)
def test_every_operation_agrees(name, tmp_path):
    quantizer = QUANTIZERS[list(CASES).index(name) % 2]
    assert_agrees(CASES[name], quantizer, inputs_for(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("name", CASES)
def test_every_operation_agrees_for_other_weights(name, turn, tmp_path):
    quantizer = WEIGHTS[(3 * list(CASES).index(name) + turn) % len(WEIGHTS)]
    if isinstance(quantizer.granularity, PerGroup) and "of vectors" in name:
        quantizer = replace(quantizer, granularity=PerGroup(4))  # divides rows of 20 and 12
    assert_agrees(CASES[name], quantizer, inputs_for(name), tmp_path)


CONVOLUTIONS = {
    "one pixel": dict(kernel_size=1),
    "one pixel, stride 2": dict(kernel_size=1, stride=2, bias=False),
    "padded": dict(kernel_size=3, padding=1),
    "not padded": dict(kernel_size=3, bias=False),
    "much padded": dict(kernel_size=3, padding=(4, 3)),
    "oblong": dict(kernel_size=(1, 5), padding=(0, 2)),
    "upright, strides": dict(kernel_size=(5, 2), stride=(3, 1), padding=(2, 0)),
    "stride 4": dict(kernel_size=3, stride=4, padding=1),
    "dilated": dict(kernel_size=3, dilation=(2, 3), padding=(2, 3)),
    "same": dict(kernel_size=(4, 3), padding="same", dilation=(1, 2)),
    "valid": dict(kernel_size=2, padding="valid"),
    "whole image": dict(kernel_size=(9, 8)),
}
GROUPS = {  # channels in, out, groups
    "one channel": (1, 5, 1),
    "three": (3, 16, 1),
    "many": (67, 33, 1),
    "more than a panel": (20, 70, 1),
    "groups of four": (12, 9, 3),
    "groups of two": (6, 6, 3),
    "groups of sixteen": (32, 72, 2),
    "depthwise": (12, 12, 12),
    "depthwise, awkward": (7, 7, 7),
    "depthwise, many": (70, 70, 70),
    "several of each": (6, 18, 6),
}


def third_of_pairs():
    """All kinds with all channels; two thirds of them are for the slow tests."""
    for row, kind in enumerate(CONVOLUTIONS):
        for column, channels in enumerate(GROUPS):
            is_slow = (row + column) % 3 != 0
            yield pytest.param(kind, channels, marks=pytest.mark.slow if is_slow else ())


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("kind", "channels"), list(third_of_pairs()))
def test_every_convolution_agrees(kind, channels, tmp_path):
    inputs, outs, groups = GROUPS[channels]
    x = maps(3, inputs)

    def make():
        layer = nn.Conv2d(inputs, outs, groups=groups, **CONVOLUTIONS[kind])
        return nn.Sequential(layer, nn.BatchNorm2d(outs), nn.ReLU6())

    quantizer = QUANTIZERS[(list(CONVOLUTIONS).index(kind) + list(GROUPS).index(channels)) % 2]
    plain, packed = float_and_packed(make, quantizer)
    for network in loaded_by_all(packed, x, tmp_path, mode="exact"):
        assert largest_error(outputs(network, x), outputs(plain, x)) < EXACT
    reference = RoundedInterpreter(checked_program(packed, x))(x)
    for network in loaded_by_all(packed, x, tmp_path):
        assert largest_error(outputs(network, x), reference) < EXACT


@pytest.mark.parametrize("quantizer", [*WEIGHTS, Ternary(granularity=PerGroup(3))], ids=repr)
@pytest.mark.parametrize("groups", [1, 3])
def test_every_kind_of_weight_agrees(quantizer, groups, tmp_path):
    """Rows of 45 or of 9 and 45 weights; scales of groups begin inside of a kernel."""

    def make():
        return nn.Sequential(
            nn.Conv2d(5 if groups == 1 else 3, 6, 3, groups=groups), nn.BatchNorm2d(6), nn.ReLU(),
            nn.Flatten(), nn.Linear(252, 11), nn.GELU(), nn.Linear(11 if groups else 9, 9),
        )  # fmt: skip

    x = maps(4, 5 if groups == 1 else 3)
    keep_float = ("6",) if isinstance(quantizer.granularity, PerGroup) else ()
    assert_agrees(make, quantizer, x, tmp_path, keep_float=keep_float)


@pytest.mark.parametrize("fold_batchnorm", [True, False])
def test_layers_may_stay_float_and_normalizations_stand_anywhere(fold_batchnorm, tmp_path):
    def make():
        return nn.Sequential(
            nn.BatchNorm2d(3), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8, affine=False),
            nn.Hardswish(), nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(),
            nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 10), nn.LogSoftmax(1),
        )  # fmt: skip

    options = {"keep_float": ("1", "13"), "fold_batchnorm": fold_batchnorm}
    assert_agrees(make, Binary(), maps(), tmp_path, **options)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_shortcuts_with_weights_agree(quantizer, tmp_path):
    assert_agrees(Residual, quantizer, maps(4, 2), tmp_path)


class SqueezeAndExcitation(nn.Module):
    """Gates made by matrices of the means of all channels."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.squeeze, self.excite = nn.Linear(16, 4), nn.Linear(4, 16)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        gates = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return x * gates.unsqueeze(-1).unsqueeze(-1)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_matrices_may_work_on_maps_of_one_pixel(quantizer, tmp_path):
    assert_agrees(SqueezeAndExcitation, quantizer, maps(), tmp_path)


class GatesToo(SqueezeAndExcitation):
    """Also gives the gates."""

    def forward(self, x):
        x = torch.relu(self.conv(x))
        gates = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return x * gates[:, :, None, None], gates


def test_a_matrix_used_for_vectors_and_for_pixels_is_one_layer(tmp_path):
    plain, packed = float_and_packed(GatesToo, Ternary())
    x = maps()
    network = loaded(packed, x, tmp_path, mode="exact")
    assert largest_error(outputs(network, x), outputs(plain, x)) < EXACT
    save_packed(packed, tmp_path / "net.safetensors")
    assert certify(tmp_path / "net.brx", against=packed).ok
    assert certify(tmp_path / "net.brx", against=tmp_path / "net.safetensors").ok
    assert certify(tmp_path / "net.safetensors", against=tmp_path / "net.brx").ok
    packed.squeeze.codes[1, 1] ^= 1
    assert not certify(tmp_path / "net.brx", against=packed).ok


def test_layers_that_share_a_weight_or_are_called_twice_agree(tmp_path):
    plain, packed = float_and_packed(Tied, Ternary())
    x = vectors(5, 6)
    network = loaded(packed, x, tmp_path, mode="exact")
    assert largest_error(outputs(network, x), outputs(plain, x)) < EXACT
    assert certify(tmp_path / "net.brx", against=packed).ok

    def thrice():
        layer = nn.Linear(6, 6)
        return nn.Sequential(layer, nn.ReLU(), layer, nn.Tanh(), layer)

    assert_agrees(thrice, Binary(), x, tmp_path)


class SeveralOfBoth(nn.Module):
    """Two inputs, three outputs; the inputs never meet in one of them."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc, self.last = nn.Conv2d(2, 4, 3), nn.Linear(20, 4), nn.Linear(4, 3)

    def forward(self, image, vector):
        x, y = torch.relu(self.conv(image)), torch.relu(self.fc(vector))
        return self.last(x.mean((2, 3)) + y), x, y


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_several_inputs_and_outputs_agree(mode, tmp_path):
    plain, packed = float_and_packed(SeveralOfBoth, Binary())
    x = maps(5, 2), vectors(5)
    options = [{}] if mode == "exact" else [{}, {"calibration": [x]}]
    for more in options:
        network = loaded(packed, x, tmp_path, mode=mode, **more)
        found = network(*(part.numpy() for part in x))
        assert isinstance(found, tuple) and len(found) == 3
        limit = EXACT if mode == "exact" else ROUNDED
        assert largest_error(outputs(network, *x), outputs(plain, *x)) < limit


def test_a_tuple_of_one_output_stays_a_tuple(tmp_path):
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(20, 3)

        def forward(self, x):
            return (self.layer(x),)

    _, packed = float_and_packed(One, Binary())
    found = loaded(packed, vectors(), tmp_path)(vectors().numpy())
    assert isinstance(found, tuple) and found[0].shape == (4, 3)


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize(
    "name", ["small-conv", "resnet20", pytest.param("resnet18", marks=pytest.mark.slow)]
)
def test_batch_and_size_of_images_change_between_calls(name, mode, tmp_path):
    model = packed_network(name, Binary() if name == "resnet18" else Ternary())
    network = loaded(model, images(1), tmp_path, mode=mode, threads=2)
    sizes = [28] if name == "small-conv" else [28, 32, 17]
    for size in sizes:
        for count in (1, 3):
            x = F.interpolate(images(count), size=(size, 28 if size == 28 else size + 3))
            limit = EXACT if mode == "exact" else ROUNDED
            assert largest_error(outputs(network, x), outputs(model, x)) < limit


def test_mobilenets_agree(tmp_path):
    model = packed_network("mobilenet-v2", Ternary(granularity=PerChannel()))
    x = F.interpolate(images(2), size=64)
    expected = outputs(model, x)
    network = loaded(model, x, tmp_path, mode="exact")
    assert largest_error(outputs(network, x), expected) < 10 * EXACT
    reference = RoundedInterpreter(checked_program(model, x))(x)
    assert largest_error(outputs(loaded(model, x, tmp_path), x), reference) < 0.1


def test_a_weight_may_be_used_outside_of_its_layer(tmp_path):
    plain, packed = float_and_packed(Mirrored, Ternary())
    network = loaded(packed, vectors(2, 10), tmp_path, mode="exact")
    x = vectors(5, 10)
    assert largest_error(outputs(network, x), outputs(plain, x)) < EXACT


def added_in_place(x):
    y = F.relu(x)
    y += x
    return y.relu_()


IDIOMS = {  # sizes come from the image, arguments from anywhere
    "view": lambda x: x.view(x.size(0), 8, x.size(2), -1),
    "pool of the whole": lambda x: F.avg_pool2d(x, x.size()[2:]),
    "pool of its shape": lambda x: F.max_pool2d(x, (x.shape[-2], x.shape[-1])),
    "in place": added_in_place,
    "concatenation from behind": lambda x: torch.cat((x, F.relu(x)), dim=-3)[:, ::2],
    "memory format": lambda x: x.contiguous(memory_format=torch.channels_last),
    "gate of a vector": lambda x: torch.sigmoid(x.mean((2, 3)))[..., None, None] * x,
    "gate of a view": lambda x: x * torch.sigmoid(x.mean((2, 3)).view(-1, 8, 1, 1)),
    "constants": lambda x: x * torch.arange(8.0)[:, None, None] - torch.ones(1, 8, 1, 1),
    "scalars": lambda x: x * torch.tensor(2.0) + torch.tensor([1.0]),
    "alpha": lambda x: torch.sub(x, torch.add(F.relu(x), x, alpha=2), alpha=3),
    "a sum of a list": lambda x: sum([x, F.relu(x)]),
    "functional normalization": lambda x: F.batch_norm(x, torch.zeros(8), torch.ones(8)),
    "later rows": lambda x: x[..., 1:, 2:],
    "dtypes": lambda x: x.float().to(torch.float32).type_as(x).to("cpu"),
    "uneven chunks": lambda x: torch.cat(x.chunk(3, 1)[::-1], 1),
}


@pytest.mark.parametrize("name", IDIOMS)
def test_code_as_people_write_it_agrees_for_other_sizes(name, tmp_path):
    plain, packed = float_and_packed(lambda: Between(IDIOMS[name]), Ternary())
    network = loaded(packed, maps(2), tmp_path, mode="exact")
    for size in ((9, 8), (7, 11), (18, 16)):
        x = maps(3, 3, *size)
        assert largest_error(outputs(network, x), outputs(plain, x)) < EXACT


def test_models_of_half_precision_run_in_float32(tmp_path):
    plain, _ = float_and_packed(lambda: Between(F.relu), Binary())
    half = seeded(lambda: Between(F.relu)).half()
    packed = pack(half, put_in_q(half, Binary()))
    network = loaded(packed, maps().half(), tmp_path, mode="exact")
    assert largest_error(outputs(network, maps()), outputs(plain, maps())) < 2e-3
    assert certify(tmp_path / "net.brx", against=packed).ok


def test_a_single_packed_layer_is_a_network(tmp_path):
    plain, model = float_and_packed(lambda: nn.Sequential(nn.Linear(20, 4)), Ternary())
    network = loaded(model[0], vectors(), tmp_path, mode="exact")
    assert largest_error(outputs(network, vectors()), outputs(plain, vectors())) < EXACT


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_a_value_may_be_several_outputs_and_be_read_too(mode, tmp_path):
    class Repeated(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            y = self.first(x)
            return y, F.relu(y), y, y + self.second(F.relu(y))

    plain, packed = float_and_packed(Repeated, Binary())
    more = {} if mode == "exact" else {"calibration": maps()}
    network = loaded(packed, maps(), tmp_path, mode=mode, **more)
    limit = EXACT if mode == "exact" else ROUNDED
    assert largest_error(outputs(network, maps()), outputs(plain, maps())) < limit


def test_wrapped_and_compiled_models_give_the_same_file(tmp_path):
    _, model = float_and_packed(lambda: Between(F.relu), Binary())
    export_native(model, maps(), tmp_path / "plain")
    wrapped = {
        "parallel": nn.DataParallel(model),
        "compiled": torch.compile(model, backend="eager"),
    }
    for name, network in wrapped.items():
        export_native(network, maps(), tmp_path / name)
        assert (tmp_path / name).read_bytes() == (tmp_path / "plain").read_bytes()


def test_the_model_stays_as_it_was(tmp_path):
    _, model = float_and_packed(Residual, Binary())
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    loaded(model, maps(4, 2), tmp_path, calibration=maps(4, 2))
    assert model.training and all(module.training for module in model.modules())
    after = model.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[n], before[n]) for n in before)
