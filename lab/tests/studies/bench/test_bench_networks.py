"""`binaryrelax bench networks`, made small, with and without the engines it compares with."""

import faulthandler
import json
import signal
import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from lab.tests.support.command import app
from typer.testing import CliRunner

from binaryrelax import PackedLayer
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.engine import read_json
from binaryrelax_lab.studies.bench import (
    integer_rivals,
    networks,
    rivals,
    runtime_sizes,
    subjects,
    timing,
)
from binaryrelax_lab.studies.bench.cold_start import Start, first_answers
from binaryrelax_lab.studies.bench.native_runtime import native_runtime
from binaryrelax_lab.studies.bench.network_accuracy import measure_accuracies
from binaryrelax_lab.studies.bench.network_files import measure_first_answers
from binaryrelax_lab.studies.bench.prepared_network import PreparedNetwork
from binaryrelax_lab.studies.bench.subjects import Subject, images_for

ROOT = Path(__file__).parents[4]
NETWORKS = ROOT / "networks"
MODES = ("exact", "fast")
OURS = {f"{kind}, {mode}" for kind in ("packed model", "accelerated model") for mode in MODES}
OURS |= {f"ours, {mode}" for mode in (*MODES, "fast, not calibrated")}
THEIRS = {f"{engine} {p}" for engine in ("ONNX Runtime", "OpenVINO") for p in ("float32", "int8")}
TRAINED = networks.SUBJECTS[0]  # ResNet-20 on CIFAR-10
GREY = Subject("resnet20", "fashion-mnist-12k")  # its images are embedded
LITTLE = networks.Effort(
    subjects=(TRAINED,), batches=(1, 2), repetitions=1, starts=1, runtimes=("binaryrelax_native",)
)

needs_the_runtime = pytest.mark.skipif(native_runtime() is None, reason="needs binaryrelax-native")


@pytest.fixture(autouse=True)
def little_of_everything(monkeypatch):
    monkeypatch.setattr(timing, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(timing, "SHORTEST_SECONDS", 0.0005)
    monkeypatch.setattr(subjects, "NUM_CALIBRATION", 16)
    monkeypatch.setattr(runtime_sizes, "LEVEL", 1)
    monkeypatch.setattr(networks, "THREADS", 1)  # torch's wait by spinning on cores that others use


def without(monkeypatch, *modules):
    real = integer_rivals.find_spec
    monkeypatch.setattr(
        integer_rivals, "find_spec", lambda name: None if name in modules else real(name)
    )


def prepared(subject, folder):
    return PreparedNetwork(subject, images_for(subject, None), NETWORKS, folder)


@needs_the_runtime
def test_without_other_engines_torch_and_ours_are_measured_and_the_rest_is_said(monkeypatch):
    without(monkeypatch, "onnxruntime")
    said, threads = [], torch.get_num_threads()
    report = networks.bench_networks(said.append, NETWORKS, effort=LITTLE)
    report = json.loads(json.dumps(report, allow_nan=False))
    assert {r["engine"] for r in report["records"]} == {*OURS, "torch float32", "torch int8"}
    assert {r["batch"] for r in report["records"]} == {1, 2}
    assert report["missing"] == ["ONNX Runtime", "OpenVINO"]
    assert set(report["engines"]) == {"binaryrelax_native", "torch"}
    assert any("ONNX Runtime is left out: pip install '.[onnx]'" in line for line in said)
    assert "resnet20, 32 pixels a side (1 of 1)" in said
    for record in report["records"]:
        assert 0 < record["seconds"] <= record["median_seconds"]
        is_exact = "exact" in record["engine"] or record["engine"] == "torch float32"
        assert record["error"] < (1e-5 if is_exact else 0.3), record
    sizes = {record["file"]: record["bytes"] for record in report["files"]}
    assert sizes["ours, fast, 1 bit"] < sizes["ours, fast, ternary"] < sizes["float32"] / 10
    assert report["accuracies"] == report["first_answers"] == []
    assert isinstance(report["machine_was_shared"], bool)
    assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_int8_of_onnx_runtime_and_openvino_computes_the_same_network():
    for module in ("onnxruntime", "onnx", "onnxscript", "openvino"):
        pytest.importorskip(module)
    effort = replace(LITTLE, batches=(1,))
    report = networks.bench_networks(lambda _: None, NETWORKS, effort=effort)
    errors = {r["engine"]: r["error"] for r in report["records"] if r["engine"] in THEIRS}
    assert errors.keys() == THEIRS and not {"ONNX Runtime", "OpenVINO"} & {*report["missing"]}
    for engine, error in errors.items():
        assert (1e-4 < error < 0.3) if "int8" in engine else error < 1e-5
    assert {"ONNX float32", "ONNX int8"} < {record["file"] for record in report["files"]}


def test_networks_that_are_not_trained_have_random_weights_of_every_width():
    for weights, quantizer in subjects.QUANTIZERS.items():
        pair = subjects.twins(GREY, weights, NETWORKS)
        layers = [m for m in pair.packed.modules() if isinstance(m, PackedLayer)]
        assert len(layers) == 19 and {m.format.codebook for m in layers} == {quantizer.codebook}
        images = images_for(GREY, None).timed
        with torch.inference_mode():
            torch.testing.assert_close(
                pair.packed(images), pair.floats(images), rtol=1e-4, atol=1e-4
            )


@needs_the_runtime
def test_accuracy_is_measured_on_the_test_images(tmp_path, monkeypatch):
    without(monkeypatch, "onnxruntime")
    data = load_fashion_mnist()
    data = replace(data, test_images=data.test_images[:64], test_labels=data.test_labels[:64])
    said = []
    records = [*measure_accuracies(said.append, prepared(GREY, tmp_path), data)]
    found = {(record["weights"], record["engine"]): record["accuracy"] for record in records}
    for weights in subjects.QUANTIZERS:
        pair = subjects.twins(GREY, weights, NETWORKS)
        images, labels = data.look_up_test(torch.arange(64))
        with torch.inference_mode():
            right = 100 * float((pair.packed(images).argmax(1) == labels).float().mean())
        assert found[weights, "ours, exact"] == found[weights, "torch float32"] == right
        assert abs(found[weights, "ours, fast"] - right) < 10
    assert len(said) == len(records) == 8 and {record["images"] for record in records} == {64}


@needs_the_runtime
def test_the_first_answer_of_a_process_is_timed_and_its_memory_told(tmp_path):
    network = prepared(TRAINED, tmp_path)
    images = tmp_path / "one.npy"
    np.save(images, network.images.timed[:1].numpy())
    starts = {
        "nothing": Start("nothing", images),
        "ours": Start("native", network.programs["1 bit"]["fast"]),
    }
    said = []
    records = first_answers(said.append, starts, images, 1, 2)
    assert [record["engine"] for record in records] == ["nothing", "ours"] and len(said) == 2
    for record in records:
        assert 0 < record["seconds"] <= record["median_seconds"] < 60
        assert record["peak_mb"] is None or 5 < record["peak_mb"] < 200


@pytest.mark.slow
@needs_the_runtime
def test_first_answers_of_all_engines(tmp_path):
    records = measure_first_answers(lambda _: None, prepared(TRAINED, tmp_path), 1)
    seconds = {record["engine"]: record["seconds"] for record in records}
    assert {"ours, fast", "ours, exact", "packed model", "torch float32"} < {*seconds}
    assert seconds["ours, fast"] < seconds["torch float32"]


def test_an_engine_that_fails_is_named_with_its_reason(tmp_path):
    (tmp_path / "net.brx").write_text("no network")
    np.save(tmp_path / "images.npy", np.zeros(3, np.float32))
    start = {"ours": Start("native", tmp_path / "net.brx")}
    with pytest.raises(ValueError, match="bench networks: native gave no first answer: "):
        first_answers(lambda _: None, start, tmp_path / "images.npy", 1, 1)


def test_the_size_of_what_is_installed_is_told_and_what_is_not_is_left_out():
    (record,) = runtime_sizes.measure_runtimes({"ours": "filelock", "other": "no-such-thing"})
    assert record["engine"] == "ours" and record["version"] == version("filelock")
    assert 0 < record["wheel_bytes"] < record["installed_bytes"]


@pytest.mark.parametrize("asked", [{}, {"quick": True}])
def test_the_command_measures_as_much_as_is_asked_for(asked, tmp_path, monkeypatch):
    """The networks are left out: what is measured of each is tested above."""
    monkeypatch.setattr(networks, "SUBJECTS", ())
    efforts = []
    monkeypatch.setattr(
        networks, "measure_network", lambda *args: efforts.append((args[3], args[4])) or {}
    )
    monkeypatch.setattr(networks, "measure_runtimes", lambda distributions: [*distributions])
    options = [f"--{name}" for name in asked]
    done = CliRunner().invoke(
        app,
        ["bench", "networks", *options, "--data", str(tmp_path), "--out", str(tmp_path / "x.json")],
    )
    assert done.exit_code == 0, done.output
    report = read_json(tmp_path / "x.json")
    effort = networks.QUICK if asked else networks.Effort()
    assert efforts == [(tmp_path, effort)] * len(effort.subjects)
    assert report["repetitions"] == effort.repetitions
    assert report["runtimes"] == [*effort.runtimes]


def test_data_without_the_images_of_a_network_is_said_and_speed_measured(tmp_path):
    said = []
    assert networks._own_images(said.append, TRAINED, tmp_path) is None
    assert said and said[0].startswith("no accuracies of resnet20: CIFAR-10: ")


def test_signals_are_handled_after_several_networks_came_and_went_in_openvino():
    """As when a child ends beside a DataLoader with workers: the process died of it."""
    openvino = pytest.importorskip("openvino")
    assert faulthandler.is_enabled()  # by pytest; it sets the stack that OpenVINO sets aside
    for _ in range(2):
        node = openvino.opset13.parameter([1, 4])
        model = openvino.Model([openvino.opset13.relu(node)], [node])
        requests = [rivals.openvino_request(model) for _ in range(2)]
        while requests:
            del requests[0]
    handled = []
    before = signal.signal(signal.SIGCHLD, lambda *_: handled.append(1))
    try:
        subprocess.run(["true"], check=True)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert handled


def test_a_folder_without_networks_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"there is no .*resnet20-binary-tuned\.safetensors; run it"
    ):
        networks.bench_networks(lambda _: None, tmp_path, effort=LITTLE)
