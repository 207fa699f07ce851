"""Packed models that the native runtime runs behind ordinary calls."""

import io
import pickle
import sys
import threading
import warnings
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from binaryrelax import (
    Binary,
    PackedLayer,
    Ternary,
    accelerate,
    export_native,
    load_packed,
    pack,
    save_packed,
    select_weights,
    set_kernel_threads,
    set_mode,
)
from binaryrelax.packed import engines

pytestmark = pytest.mark.skipif(engines.native() is None, reason="needs binaryrelax-native")
CHANGED = "weights or layers have changed"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return torch.relu(self.drop(self.norm(self.conv(x))) + x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block = Block()
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(self.block(torch.relu(self.stem(x))).mean((2, 3)))


def packed(model, quantizer=None, keep_float=()):
    """The model as training would leave it, packed and in evaluation mode."""
    weights = select_weights(model, quantizer or Ternary(), keep_float=keep_float)
    for weight, projection in weights.items():
        weight.data = projection.project(weight.data)
    model(torch.randn(4, 3, 8, 8))  # statistics of batch normalization
    return pack(model, weights).eval()


@pytest.fixture(params=["ternary", "1 bit"])
def model(request):
    torch.manual_seed(0)
    return packed(Net(), {"ternary": Ternary(), "1 bit": Binary()}[request.param], ("fc",))


@pytest.fixture
def images():
    return torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class _Operations(TorchDispatchMode):
    """Which operations torch carries out."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def runs_in_the_runtime(model, *inputs):
    with _Operations() as operations:
        model(*inputs)
    return not {"relu", "add", "mean", "addmm"} & operations.names


@torch.no_grad()
def assert_same(model, expected, *inputs, **tolerance):
    torch.testing.assert_close(
        model(*inputs), expected, **(tolerance or {"rtol": 1e-4, "atol": 1e-5})
    )


@torch.no_grad()
def outputs(model, *inputs):
    return model(*inputs)


def test_calls_give_what_they_gave_and_torch_does_nothing_in_them(model, images):
    larger = torch.randn(2, 3, 13, 9)
    expected = [outputs(model, x) for x in (images, images[:1], larger)]
    assert not runs_in_the_runtime(model, images)
    assert accelerate(model, images[:1]) is model
    for x, output in zip((images, images[:1], larger), expected, strict=True):
        assert runs_in_the_runtime(model, x)
        assert_same(model, output, x)
    strided = images.to(memory_format=torch.channels_last)
    assert runs_in_the_runtime(model, strided)
    assert_same(model, expected[0], strided)
    with torch.inference_mode():
        assert_same(model, expected[0], images)


@pytest.mark.parametrize("calibration", ["none", "tensor", "batches"])
def test_rounding_has_to_be_asked_for(model, images, calibration):
    expected = outputs(model, images)
    accelerate(model, images)
    assert {layer.mode for layer in model.modules() if isinstance(layer, PackedLayer)} == {"exact"}
    batches = {"none": None, "tensor": images, "batches": iter([images, images[:2]])}
    accelerate(model, images, mode="fast", calibration=batches[calibration])
    assert {layer.mode for layer in model.modules() if isinstance(layer, PackedLayer)} == {"fast"}
    assert runs_in_the_runtime(model, images)
    assert_same(model, expected, images, rtol=0, atol=0.05 * float(expected.abs().max()))
    assert not torch.equal(outputs(model, images), expected)


def of_float64(model, x):
    model.double()
    return model.forward.plain(x.double()), model(x.double())


def under_autocast(model, x):
    with torch.autocast("cpu", torch.bfloat16):
        return model.forward.plain(x), model(x)


def under_vmap(model, x):
    return model.forward.plain(x), torch.vmap(lambda row: model(row[None])[0])(x)


def with_torch_alone(model, x):
    with engines.torch_only():
        return model.forward.plain(x), model(x)


def of_the_wrong_size(model, x):
    """Average pooling of 5 pixels fits no image of 4: torch's own error is raised."""
    pool = packed(nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(5), nn.Flatten()))
    accelerate(pool, x)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        pool(x[..., :4, :4])
    return model.forward.plain(x), model(x)


def of_negated_views(model, x):
    x = torch.complex(x, x).conj().imag
    assert x.is_neg()
    return model.forward.plain(x), model(x)


def of_one_image(model, x):
    return model.stem(x)[0], accelerate(model.stem, x)(x[0])


def without_images(model, x):
    return torch.empty(0, 5), model(x[:0])


def by_keyword(model, x):
    return model(x), model(x=x)


@pytest.mark.parametrize(
    "case",
    [of_float64, under_autocast, under_vmap, with_torch_alone, of_one_image, of_the_wrong_size,
     of_negated_views, without_images, by_keyword],
)  # fmt: skip
def test_inputs_that_are_not_for_the_runtime_run_as_before(model, images, case):
    accelerate(model, images)
    with torch.no_grad():
        expected, found = case(model, images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_training_and_hooks_run_as_before(model, images):
    accelerate(model, images)
    model.block.drop.train()
    assert not runs_in_the_runtime(model, images)
    model.eval()
    assert runs_in_the_runtime(model, images)
    seen = []
    handle = model.block.register_forward_hook(lambda *_: seen.append(1))
    outputs(model, images)
    assert seen
    handle.remove()
    assert runs_in_the_runtime(model, images)
    model.register_forward_hook(lambda *_: seen.append(2))  # of the whole: it needs no inside
    assert runs_in_the_runtime(model, images) and seen[-1] == 2


def test_a_gradient_is_there_where_it_is_wanted(model, images):
    expected = model(images)
    accelerate(model, images)
    with pytest.warns(UserWarning, match="ask for gradients; call it under torch.no_grad"):
        found = model(images)
    found.sum().backward()
    assert model.fc.weight.grad is not None
    torch.testing.assert_close(found, expected)
    model.requires_grad_(False)
    x = images.clone().requires_grad_()
    model(x).sum().backward()
    assert x.grad is not None
    assert not model(images).requires_grad


def write(model):
    with torch.no_grad():
        model.fc.weight.mul_(2)


def assign(model):
    model.fc.weight = nn.Parameter(2 * model.fc.weight.detach())


def assign_data(model):
    model.fc.weight.data = 2 * model.fc.weight.data


def load_state(model):
    state = model.state_dict()
    model.load_state_dict({**state, "stem.codes": ~state["stem.codes"] & 0})


def replace_a_layer(model):
    model.block = nn.Identity().eval()


def round_to_half_precision(model):
    model.bfloat16().float()


CHANGES = [write, assign, assign_data, load_state, replace_a_layer, round_to_half_precision]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("of", ["itself", "copy", "pickle"])
def test_a_changed_model_is_noticed(model, images, change, of):
    accelerate(model, images)
    if of != "itself":
        model = deepcopy(model) if of == "copy" else pickle.loads(pickle.dumps(model))
    before = outputs(model, images)
    assert runs_in_the_runtime(model, images)
    change(model)
    with pytest.warns(UserWarning, match=CHANGED) as told:
        after = outputs(model, images)
    assert [warning.filename for warning in told] == [__file__]  # of who calls the model
    assert not torch.equal(before, after)
    with torch.no_grad():
        torch.testing.assert_close(after, model.forward.plain(images))
    assert not runs_in_the_runtime(model, images)  # told once
    accelerate(model, images)
    assert_same(model, after, images)
    assert runs_in_the_runtime(model, images)


def test_another_mode_is_noticed(model, images):
    accelerate(model, images, mode="fast")
    set_mode(model, "exact")
    with pytest.warns(UserWarning, match="set_mode has chosen another mode"):
        found = outputs(model, images)
    with torch.no_grad():
        assert torch.equal(found, model.forward.plain(images))


def test_copies_of_a_changed_model_know_that_it_was(model, images):
    accelerate(model, images)
    write(model)
    for other in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.warns(UserWarning, match=CHANGED):
            outputs(other, images)


def test_copies_run_in_the_runtime_and_apart(model, images, tmp_path):
    expected = outputs(model, images)
    accelerate(model, images)
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    copy, loaded = deepcopy(model), torch.load(stream, weights_only=False)
    with pytest.warns(UserWarning, match=CHANGED):
        write(copy)
        outputs(copy, images)
    for other in (model, loaded):
        assert runs_in_the_runtime(other, images)
        assert_same(other, expected, images)


def test_state_and_files_are_those_of_the_packed_model(model, images, tmp_path):
    keys = [*model.state_dict()]
    save_packed(model, tmp_path / "before.safetensors")
    accelerate(model, images)
    assert [*model.state_dict()] == keys and type(model) is Net
    save_packed(model, tmp_path / "after.safetensors")
    before, after = (tmp_path / f"{name}.safetensors" for name in ("before", "after"))
    assert before.read_bytes() == after.read_bytes()
    other = load_packed(after, Net()).eval()
    torch.testing.assert_close(outputs(other, images), outputs(model, images))
    del model.forward
    assert not runs_in_the_runtime(model, images)


def test_other_exports_see_the_model_itself(model, images, tmp_path):
    expected = outputs(model, images)
    accelerate(model, images, mode="fast")
    export_native(model, images, tmp_path / "net.brx", mode="exact")
    import binaryrelax_native

    found = torch.from_numpy(binaryrelax_native.load(tmp_path / "net.brx")(images.numpy()))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert runs_in_the_runtime(model, images)


def test_compilers_and_tracers_see_the_code(model, images):
    expected = outputs(model, images)
    accelerate(model, images)
    with torch.no_grad():
        compiled = torch.compile(model, backend="eager")(images)
        exported = torch.export.export(model, (images,)).module()(images)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is deprecated
            traced = torch.jit.trace(model, images)(images)
    for found in (compiled, exported, traced):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_threads_follow_torch_unless_told_otherwise(model, images):
    before = torch.get_num_threads()
    accelerate(model, images)
    try:
        for count in (1, 3, 2):
            torch.set_num_threads(count)
            outputs(model, images)
            assert model.forward._network.threads == count
        set_kernel_threads(4)
        outputs(model, images)
        assert model.forward._network.threads == 4
    finally:
        set_kernel_threads(None)
        torch.set_num_threads(before)


def test_several_threads_may_call_it(model, images):
    accelerate(model, images)
    expected, found = outputs(model, images), []

    def call():
        found.extend(outputs(model, images) for _ in range(20))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and all(torch.equal(output, expected) for output in found)


class Several(nn.Module):
    def __init__(self, container):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
        self.container = container

    def forward(self, x, y=None):
        a, b = self.first(x), self.second(x if y is None else y)
        return self.container((a, torch.relu(a + b)))


@pytest.mark.parametrize("container", [tuple, list])
def test_several_inputs_and_outputs(container, images):
    model = packed(Several(container))
    inputs = images, torch.randn(3, 3, 8, 8)
    expected = outputs(model, *inputs)
    accelerate(model, inputs)
    found = outputs(model, *inputs)
    assert type(found) is container and runs_in_the_runtime(model, *inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs(model, inputs[0])[0], expected[0])  # one input: its own code


def test_a_part_of_a_model_may_be_accelerated(model, images):
    expected, stem = outputs(model, images), outputs(model.stem, images)
    accelerate(model.block, torch.relu(stem))
    assert_same(model, expected, images)
    assert runs_in_the_runtime(model.block, torch.relu(stem))
    accelerate(model, images)
    assert_same(model, expected, images)


def unlike_any(x):
    return torch.fft.fft2(x).real


class Odd(Net):
    def forward(self, x):
        return super().forward(unlike_any(x))


class InADict(Net):
    def forward(self, x):
        return {"scores": super().forward(x)}


def in_half_precision():
    return packed(Net()).half()


def in_inference_mode():
    with torch.inference_mode():
        return packed(Net())


def with_another_forward():
    model = packed(Net())
    vars(model)["forward"] = model.stem
    return model


@pytest.mark.parametrize(
    ("make", "options", "reason"),
    [
        (lambda: packed(Odd()), {}, "accelerate: export_native: call 'fft_fft2' cannot be lowered"),
        (lambda: packed(InADict()), {}, "gives a dict"),
        (Net, {}, "no layer of Net is packed"),
        (in_half_precision, {}, r"model.float\(\).cpu\(\) first"),
        (in_inference_mode, {}, r"was made under torch.inference_mode\(\)"),
        (with_another_forward, {}, "forward of this Net was replaced by 'PackedConv2d'"),
        (lambda: packed(Net()), {"mode": "quick"}, "mode='quick'"),
        (lambda: packed(Net()), {"calibration": torch.ones(1, 3, 8, 8)}, "nothing to calibrate"),
        (lambda: packed(Net()), {"mode": "fast", "calibration": []}, "it holds no images"),
    ],
)
def test_what_cannot_be_accelerated_is_refused_and_stays(make, options, reason, images):
    model = make()
    before = vars(model).get("forward")
    with pytest.raises(ValueError, match=reason):
        accelerate(model, images, **options)
    assert vars(model).get("forward") is before


def test_without_the_runtime_it_says_what_to_install(model, images, monkeypatch):
    accelerate(model, images)
    expected = outputs(model, images)
    try:
        monkeypatch.setitem(sys.modules, "binaryrelax_native", None)
        engines.native.cache_clear()
        with pytest.raises(ImportError, match=r"pip install \./native"):
            accelerate(model, images)
        with pytest.warns(UserWarning, match=r"is not installed; pip install \./native"):
            torch.testing.assert_close(outputs(pickle.loads(pickle.dumps(model)), images), expected)
    finally:
        monkeypatch.undo()
        engines.native.cache_clear()
