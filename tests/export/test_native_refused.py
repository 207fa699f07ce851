"""What the native runtime cannot run is refused by name before anything is written."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryrelax import Binary, Quantizer, export_native, pack, select_weights
from tests.export.native_cases import Between, BetweenVectors, float_and_packed, maps, vectors
from tests.packed.cases import put_in_q, seeded


def refused(model, example, folder, **options):
    """Why; no file appears, and one that is there remains as it was."""
    for content in (None, b"an older network"):
        path = folder / f"net{content is None}.brx"
        if content:
            path.write_bytes(content)
        before = sorted(folder.iterdir())
        with pytest.raises(ValueError) as caught:
            export_native(model, example, path, **options)
        assert sorted(folder.iterdir()) == before
        assert content is None or path.read_bytes() == content
    text = str(caught.value)
    assert text.startswith("export") and "\n" not in text and len(text) < 600
    return text


def packed_around(calls, channels=8):
    return float_and_packed(lambda: Between(calls, channels), Binary())[1]


CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)
LAYERS = {  # after a convolution to 8 channels; and why not
    "reflect": (nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"), "mode 'reflect'"),
    "group norm": (nn.GroupNorm(2, 8), "no operation for it"),
    "instance norm": (nn.InstanceNorm2d(8), "no operation for it"),
    "prelu": (nn.PReLU(8), "no operation for it"),
    "transposed": (nn.ConvTranspose2d(8, 8, 3, padding=1), "no operation for it"),
    "shuffle": (nn.Sequential(nn.Conv2d(8, 32, 1), nn.PixelShuffle(2)), "no operation for it"),
    "indices": (nn.MaxPool2d(2, return_indices=True), "the places of the largest"),
    "divisor": (nn.AvgPool2d(2, divisor_override=3), "divides by another number"),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), "mode 'bicubic'"),
    "statistics": (nn.BatchNorm2d(8, track_running_stats=False), "statistics of the batch"),
    "layer norm": (nn.LayerNorm((8, 9, 8)), "no operation for it"),
    "reflection": (nn.ReflectionPad2d(1), "no operation for it"),
    "softmax of rows": (nn.Softmax(2), "dimension 2"),
}


def inner(model):
    """Names of the convolutions inside of the last layer."""
    return tuple(n for n, m in model[2].named_modules(prefix="2") if isinstance(m, CONVOLUTIONS))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_without_operation_are_named_with_the_reason(name, tmp_path):
    layer, reason = LAYERS[name]

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), layer)

    model = seeded(make)
    text = refused(
        pack(model, put_in_q(model, Binary(), keep_float=inner(model))), maps(), tmp_path
    )
    assert reason in text and "'2" in text and "cannot be lowered" in text


CALLS = {
    "sine": (torch.sin, "'sin'", "no operation"),
    "exponential": (torch.exp, "'exp'", "no operation"),
    "division": (lambda x: x / (1 + x.square()), "'truediv'", "divides by a tensor"),
    "cube": (lambda x: x**3, "'pow'", "only squares"),
    "matrix product": (lambda x: x @ x.transpose(2, 3), "'transpose'", "no operation"),
    "order of pixels": (lambda x: x.permute(0, 1, 3, 2), "'permute'", "no operation"),
    "flip": (lambda x: x.flip(3), "'flip'", "no operation"),
    "cumulation": (lambda x: x.cumsum(1), "'cumsum'", "no operation"),
    "mean of channels": (lambda x: x - x.mean(1, keepdim=True), "'mean'", "over all pixels"),
    "other dtype": (lambda x: x.double().float(), "'double'", "no operation"),
    "rounding": (lambda x: x.to(torch.float16).float(), "'to'", "computes in float32"),
    "dropout in use": (lambda x: F.dropout(x, 0.5), "'dropout'", "drops numbers"),
    "counted from the end": (lambda x: x[:, :, :-1], "'getitem'", "from the end"),
    "part of the batch": (lambda x: x[:1], "'getitem'", "the batch"),
    "reshape across pixels": (
        lambda x: x.reshape(x.shape[0], 8 * 9, 8, 1) * 2 + F.relu(x).reshape(-1, 72, 8, 1),
        "", "between channels and pixels",
    ),
    "own padding": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), "'pad'", "'reflect'"),
    "rows of ones": (lambda x: x + torch.ones(9, 8), "'add'", "not one number for each channel"),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x), "attention'", "no operation"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_without_operation_are_named_with_the_reason(name, tmp_path):
    calls, call, reason = CALLS[name]
    channels = 72 if "across" in name else 8
    text = refused(packed_around(calls, channels), maps(2), tmp_path)
    assert call in text and reason in text and "cannot be lowered" in text


def test_code_that_depends_on_numbers_cannot_be_traced(tmp_path):
    packed = packed_around(lambda x: x if float(x.mean()) > 0 else -x)
    text = refused(packed, maps(), tmp_path)
    assert "torch.fx cannot trace Between" in text


def test_code_that_depends_on_the_size_is_noticed(tmp_path):
    packed = packed_around(lambda x: F.relu(x) if x.shape[2] == 9 else x)
    text = refused(packed, maps(), tmp_path)
    assert "must not choose by the size of the image" in text


@pytest.mark.parametrize("position", ["before", "after"])
def test_hooks_of_packed_layers_are_not_lost(position, tmp_path):
    packed = packed_around(F.relu)
    if position == "before":
        packed.second.register_forward_pre_hook(lambda _, args: (args[0].square(),))
    else:
        packed.second.register_forward_hook(lambda _, args, output: output + 1)
    assert "gives other outputs than the packed model" in refused(packed, maps(), tmp_path)


def test_weights_computed_from_images_are_refused(tmp_path):
    packed = packed_around(lambda x: F.conv2d(x, x.mean((2, 3), keepdim=True)), 2)
    assert "computed from the image" in refused(packed, maps(2), tmp_path)


def test_padding_that_depends_on_the_image_is_refused(tmp_path):
    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect"))

    _, packed = float_and_packed(make, Binary())
    assert "'0'" in refused(packed, maps(), tmp_path)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Sequential(nn.Conv1d(4, 3, 2)), (2, 4, 9)),
        (lambda: nn.Sequential(nn.Conv3d(1, 3, 2)), (2, 1, 4, 4, 4)),
        (lambda: nn.Sequential(nn.Linear(4, 3)), (2, 5, 4)),
        (lambda: nn.Sequential(nn.Linear(4, 3)), (4,)),
    ],
)
def test_other_than_maps_and_vectors_are_refused(make, shape, tmp_path):
    _, packed = float_and_packed(make, Binary())
    assert "maps (N, C, H, W) or vectors (N, F)" in refused(packed, torch.zeros(shape), tmp_path)


def test_whole_numbers_are_refused(tmp_path):
    text = refused(packed_around(F.relu), maps().long(), tmp_path)
    assert "torch.int64" in text and "takes floats" in text
    assert "at least one row" in refused(packed_around(F.relu), maps()[:0], tmp_path)


class Fine(Quantizer):
    """Whole numbers up to 150."""

    @property
    def codebook(self) -> tuple[float, ...]:
        return tuple(float(level) for level in range(-150, 151))

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        scale = rows.abs().amax(dim=1) / 150
        return scale, (rows / scale[:, None]).round()


def test_codes_of_too_many_bits_are_refused(tmp_path):
    _, packed = float_and_packed(lambda: BetweenVectors(F.relu), Fine())
    text = refused(packed, vectors(), tmp_path)
    assert "layer 'first'" in text and "9 bits" in text


def test_models_that_are_not_packed_are_refused(tmp_path):
    plain = seeded(lambda: Between(F.relu))
    assert "pack(model, weights) first" in refused(plain, maps(), tmp_path)


def test_packed_layers_must_make_the_outputs(tmp_path):
    class Ignored(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(20, 3), nn.Linear(20, 3)

        def forward(self, x):
            self.unused(x)
            return self.used(x)

    model = seeded(Ignored)
    weights = select_weights(model, Binary(), keep_float=("used",))
    with torch.no_grad():
        for weight, quantizer in weights.items():
            weight.copy_(quantizer.project(weight))
    assert "no packed layer" in refused(pack(model, weights), vectors(), tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(value, tmp_path):
    packed = packed_around(F.relu)
    packed.second.bias.data[3] = value
    assert "bias of 'second'" in refused(packed, maps(), tmp_path)


def test_outputs_must_be_maps_or_vectors_that_were_computed(tmp_path):
    class Odd(nn.Module):
        def __init__(self, odd):
            super().__init__()
            self.layer, self.odd = nn.Conv2d(3, 4, 3), odd

        def forward(self, x):
            return self.odd(self.layer(x), x)

    for odd, reason in (
        (lambda y, x: y.flatten(2), "no map and no vector"),
        (lambda y, x: (y, x), "as it came"),
        (lambda y, x: {"y": y}, "a dict"),
        (lambda y, x: (y, 3), "other parts than tensors"),
        (lambda y, x: (y, [y]), "other parts than tensors"),
    ):
        _, packed = float_and_packed(lambda odd=odd: Odd(odd), Binary())
        assert reason in refused(packed, maps(), tmp_path)


CALIBRATIONS = {
    "none": ([], "no images"),
    "no rows": (maps()[:0], "no images"),
    "whole numbers": (maps().long(), "no floats"),
    "other channels": (maps(4, 4), "not \\(N, 3, 9, 8\\)"),
    "labels beside": ([(maps(), torch.zeros(4, 1))], "without labels"),
    "not finite": (maps() / 0, "input 0 is NaN or infinite"),
    "too large": (maps() * 3e38, "NaN or infinite"),
}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_images_that_cannot_calibrate_are_refused(name, tmp_path):
    images, reason = CALIBRATIONS[name]
    text = refused(packed_around(F.relu), maps(), tmp_path, calibration=images)
    assert text.startswith("export_native(calibration=...): ")
    assert reason.replace("\\", "") in text


def test_wrong_options_are_refused(tmp_path):
    packed = packed_around(F.relu)
    assert "'fast' and 'exact'" in refused(packed, maps(), tmp_path, mode="int8")
    options = {"mode": "exact", "calibration": maps()}
    assert "nothing to calibrate" in refused(packed, maps(), tmp_path, **options)
    for about in ({"a": 1}, {1: "a"}, {"a": None}):
        assert "about" in refused(packed, maps(), tmp_path, about=about)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="absent"):
        export_native(packed_around(F.relu), maps(), tmp_path / "absent" / "net.brx")
