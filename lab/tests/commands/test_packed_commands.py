"""`binaryrelax pack`, `certify` and `export`, on a network that was really trained."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch
from lab.tests.support.command import app
from lab.tests.support.tiny import tiny_data
from safetensors.torch import load_file
from typer.testing import CliRunner

from binaryrelax import PackedConv2d, certify
from binaryrelax_lab.data import IMAGE_SHAPES, NORMALISATIONS, NUM_CLASSES, load_fashion_mnist
from binaryrelax_lab.data.fashion_mnist import CLASS_NAMES
from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, Machine, read_json
from binaryrelax_lab.packing import accuracy_of, load_packed_run, pack_run
from binaryrelax_lab.studies.bench.rivals import openvino_core

NETWORKS = Path(__file__).parents[3] / "networks"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def files(tiny_runs, tmp_path_factory):
    """A binary and a ternary network, packed."""
    folder = tmp_path_factory.mktemp("files")
    for method in ("binary", "ternary"):
        file = folder / f"{method}.safetensors"
        done = invoke("pack", tiny_runs / f"tiny-{method}", "--out", file)
        assert done.exit_code == 0, done.output
        assert "times less than float32" in done.stdout
    return folder


@pytest.mark.parametrize("method", ["binary", "ternary"])
def test_packed_weights_are_the_trained_ones_and_so_is_the_accuracy(tiny_runs, files, method):
    model, dataset = load_packed_run(files / f"{method}.safetensors")
    trained = load_file(tiny_runs / f"tiny-{method}" / FINAL_NAME)
    layers = {n: m for n, m in model.named_modules() if isinstance(m, PackedConv2d)}
    assert len(layers) == 4 and dataset == "fashion-mnist-12k"
    for name, layer in layers.items():
        assert torch.equal(layer.weight, trained[f"{name}.weight"])
    accuracy = accuracy_of(model, tiny_data(), Machine())
    assert accuracy == read_json(tiny_runs / f"tiny-{method}" / RESULT_NAME)["summary"]["last"]


def test_the_file_alone_says_how_to_show_an_image_to_its_network(files):
    data, about = load_fashion_mnist(), certify(files / "binary.safetensors").about
    mean, deviation = (
        torch.tensor([float(value) for value in about[key].split()])
        for key in ("mean", "deviation")
    )
    image = (data.test_images[:1] / 255 - mean) / deviation
    torch.testing.assert_close(image.permute(0, 3, 1, 2), images_as_seen(1))


@pytest.mark.parametrize("dataset", NORMALISATIONS)
def test_every_channel_of_a_dataset_has_a_mean_and_a_deviation(dataset):
    mean, deviation = NORMALISATIONS[dataset]
    assert len(mean) == len(deviation) == IMAGE_SHAPES[dataset][0]


def test_folding_makes_the_file_smaller(tiny_runs, files, tmp_path):
    folder, file = tiny_runs / "tiny-binary", tmp_path / "folded"
    done = invoke("pack", folder, "--out", file, "--fold-batchnorm")
    assert done.exit_code == 0, done.output
    folded, plain = certify(file), certify(files / "binary.safetensors")
    assert folded.ok and folded.file_bytes < plain.file_bytes


@pytest.mark.parametrize("fold_batchnorm", [False, True])
def test_a_recalibrated_file_has_the_accuracy_that_the_run_has_told(
    tiny_runs, tmp_path, fold_batchnorm
):
    folder, file = tiny_runs / "tiny-ternary", tmp_path / "net"
    pack_run(folder, file, fold_batchnorm=fold_batchnorm, images_of=lambda name: tiny_data())
    model, _ = load_packed_run(file)
    summary = read_json(folder / RESULT_NAME)["summary"]
    assert accuracy_of(model, tiny_data(), Machine()) == summary["last_recalibrated"]


def test_recalibrating_changes_the_statistics_alone(tiny_runs, files, tmp_path):
    file = tmp_path / "net"
    done = invoke("pack", tiny_runs / "tiny-ternary", "--out", file, "--recalibrate")
    assert done.exit_code == 0, done.output
    before, after = load_file(files / "ternary.safetensors"), load_file(file)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all("running_" in name or "num_batches" in name for name in changed)
    assert certify(file).about["statistics"] == "recalibrated"
    assert "statistics" not in certify(files / "ternary.safetensors").about
    done = invoke("pack", tiny_runs / "tiny-ternary", "--out", file, "--data", tmp_path)
    assert done.exit_code == 2 and "--recalibrate" in done.output


def test_certificate_shows_every_layer_and_the_savings(files):
    done = invoke("certify", files / "ternary.safetensors")
    assert done.exit_code == 0, done.output
    certificate = certify(files / "ternary.safetensors")
    for layer in certificate.layers:
        (line,) = [line for line in done.stdout.splitlines() if line.split()[:1] == [layer.name]]
        assert f"{layer.num_bytes:,}" in line and layer.digest[:12] in line and "-1 0 +1" in line
    assert "no scale has more than 3 different weights" in done.stdout
    assert f"{certificate.saving:.1f} times less" in done.stdout


def test_certificate_can_try_the_network_on_the_test_images(files):
    file = files / "ternary.safetensors"
    done = invoke("certify", file, "--accuracy")
    assert done.exit_code == 0, done.output
    accuracy = accuracy_of(load_packed_run(file)[0], load_fashion_mnist(), Machine())
    assert f"accuracy  {accuracy:.2f} % of 2,000 test images" in done.stdout
    done = invoke("certify", file, "--data", "somewhere")
    assert done.exit_code == 2 and "images are for --accuracy" in done.output


def test_packed_network_is_loaded_by_reading_its_file_once(files, monkeypatch):
    opened, open_file = [], safetensors.safe_open

    def counting(path, *arguments):
        opened.append(path)
        return open_file(path, *arguments)

    monkeypatch.setattr(safetensors, "safe_open", counting)
    load_packed_run(files / "ternary.safetensors")
    assert opened == [files / "ternary.safetensors"]


def test_missing_images_are_missed_before_the_table():
    file = NETWORKS / "cifar10-resnet20-binary-tuned.safetensors"
    done = invoke("certify", file, "--accuracy", "--data", "nowhere")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "give its folder with --data" in done.stderr


def test_changed_file_exits_with_1_and_names_the_layer(files, tmp_path):
    content = bytearray((files / "binary.safetensors").read_bytes())
    codes = load_file(files / "binary.safetensors")["block4.conv.codes"].numpy().tobytes()
    content[bytes(content).index(codes) + 5] ^= 1
    (tmp_path / "changed").write_bytes(content)
    for options in ((), ("--accuracy",)):
        done = invoke("certify", tmp_path / "changed", *options)
        assert done.exit_code == 1
        assert "layer 'block4.conv' was changed" in done.stderr
        assert "block3.conv" in done.stdout and "\n" not in done.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("pack", "{runs}/tiny-float", "--out", "{files}/x"), "holds a float network"),
        (("pack", "{files}", "--out", "{files}/x"), "holds no finished run"),
        (("certify", "{runs}/tiny-binary/final.safetensors"), "is no packed network"),
        (("certify", "{files}/nothing"), "No such file"),
        (("certify", "{files}"), "is a folder"),
    ],
)
def test_errors_are_one_line(tiny_runs, files, arguments, problem):
    done = invoke(*[argument.format(runs=tiny_runs, files=files) for argument in arguments])
    assert done.exit_code == 1
    assert problem in done.stderr and "\n" not in done.stderr.strip()
    assert not (files / "x").exists()


def test_weights_that_were_changed_after_training_are_not_packed(tiny_runs, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / RESULT_NAME).write_bytes((tiny_runs / "tiny-binary" / RESULT_NAME).read_bytes())
    (folder / FINAL_NAME).write_bytes((tiny_runs / "tiny-ternary" / FINAL_NAME).read_bytes())
    done = invoke("pack", folder, "--out", tmp_path / "file")
    assert done.exit_code == 1 and "its digest differs" in done.stderr


@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_exported_networks_predict_the_same(files, tmp_path, to):
    pytest.importorskip("onnxruntime" if to == "onnx" else "openvino")
    target = tmp_path / ("net.onnx" if to == "onnx" else "net.xml")
    done = invoke("export", files / "ternary.safetensors", "--to", to, "--out", target)
    assert done.exit_code == 0, done.output
    model, _ = load_packed_run(files / "ternary.safetensors")
    images = images_as_seen(20)
    with torch.inference_mode():
        expected = model(images).numpy()
    np.testing.assert_allclose(run_exported(target, images.numpy()), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_networks_of_the_lab_are_calibrated_with_their_own_images(files, tmp_path, mode):
    runtime = pytest.importorskip("binaryrelax_native")
    target, options = tmp_path / "net.brx", ["--calibration", tmp_path] if mode == "fast" else []
    done = invoke(
        "export", files / "ternary.safetensors", "--to", "native", "--out", target, "--mode", mode,
        *options,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert ("ranges those of 128 images" in done.stdout) == (mode == "fast")
    network, (model, _) = runtime.load(target), load_packed_run(files / "ternary.safetensors")
    assert network.mode == mode
    assert network.about == certify(files / "ternary.safetensors").about
    images = images_as_seen(200)
    with torch.inference_mode():
        expected = model(images).argmax(1).numpy()
    same = (network(images.numpy()).argmax(1) == expected).mean()
    assert same > 0.97 if mode == "fast" else same == 1


def test_the_runtime_alone_finds_the_classes_of_raw_images(files, tmp_path):
    """The file says how its network was shown images: bytes (N, H, W, C) are normalised so."""
    pytest.importorskip("binaryrelax_native")
    target, pixels = tmp_path / "net.brx", load_fashion_mnist().test_images[:50]
    done = invoke(
        "export",
        files / "ternary.safetensors",
        "--to",
        "native",
        "--mode",
        "exact",
        "--out",
        target,
    )
    assert done.exit_code == 0, done.output
    (tmp_path / "names.txt").write_text("\n".join(CLASS_NAMES))
    model, _ = load_packed_run(files / "ternary.safetensors")
    with torch.inference_mode():
        scores, best = model(images_as_seen(50)).max(1)
    for given, count in ((pixels, 50), (pixels.squeeze(3), 50), (pixels[0], 1)):
        np.save(tmp_path / "images.npy", given.numpy())
        done = run_alone(target, tmp_path / "images.npy", "--labels", tmp_path / "names.txt")
        lines = [line for line in done.stdout.splitlines() if line.startswith("image ")]
        assert len(lines) == count
        for number, line in enumerate(lines):
            assert line == f"image {number}: {CLASS_NAMES[best[number]]} {scores[number]:.4f}"
    np.save(tmp_path / "images.npy", np.zeros((2, 28, 28, 3), np.uint8))
    refused = run_alone(target, tmp_path / "images.npy")
    assert refused.returncode == 2
    assert "holds bytes of the shape (2, 28, 28, 3); they must be (N, H, W, 1)" in refused.stderr


def run_alone(*arguments):
    command = [sys.executable, "-m", "binaryrelax_native", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_run_is_exported_with_what_its_file_would_say(tiny_runs, files, tmp_path):
    target = tmp_path / "run.brx"
    done = invoke("export", tiny_runs / "tiny-ternary", "--to", "native", "--out", target)
    assert done.exit_code == 0, done.output
    assert certify(target, files / "ternary.safetensors").ok
    assert (
        certify(target).about["network"] == certify(files / "ternary.safetensors").about["network"]
    )


def test_missing_images_to_calibrate_with_name_the_option():
    file = NETWORKS / "cifar10-resnet20-binary-tuned.safetensors"
    done = invoke("export", file, "--to", "native", "--calibration", "nowhere")
    assert done.exit_code == 1 and "or an .npy file, with --calibration" in done.stderr


def images_as_seen(count):
    """Images as a network sees them."""
    data = load_fashion_mnist()
    return data.look_up_test(*next(iter(data.test_batches(count))))[0]


def run_exported(path, images):
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: images})[0]
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino_core().compile_model(path, "CPU", settings)(images)[0]


def test_shapes_of_the_embedded_images_are_the_ones_that_are_written_down():
    data = load_fashion_mnist()
    assert tuple(images_as_seen(3).shape) == (3, *IMAGE_SHAPES["fashion-mnist-12k"])
    assert data.num_classes == NUM_CLASSES["fashion-mnist-12k"]
