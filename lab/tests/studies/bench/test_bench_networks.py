"""`binaryrelax bench networks`, made small, with and without the engines it compares with."""

import faulthandler
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import torch

from binaryrelax_lab.studies.bench import integer_rivals, networks, rivals, timing

ROOT = Path(__file__).parents[4]
FILE = "cifar10-resnet20-binary-tuned.safetensors"
OURS = {"torch float32", "packed, exact", "packed, fast", "packed, fast, kernel threads set"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(timing, "SHORTEST_SECONDS", 0.0005)
    monkeypatch.setattr(networks, "NUM_CALIBRATION", 4)
    shutil.copy(ROOT / "networks" / FILE, tmp_path)
    return tmp_path


def without(monkeypatch, *modules):
    real = integer_rivals.find_spec
    monkeypatch.setattr(
        integer_rivals, "find_spec", lambda name: None if name in modules else real(name)
    )


def test_without_other_engines_torch_and_packed_are_measured_and_the_rest_is_said(
    folder, monkeypatch
):
    without(monkeypatch, "onnxruntime")
    said, threads = [], torch.get_num_threads()
    report = networks.bench_networks(said.append, folder, batches=(1, 2), repetitions=1)
    assert {r["engine"] for r in report["records"]} == OURS
    assert {r["batch"] for r in report["records"]} == {1, 2}
    assert report["missing"] == ["ONNX Runtime", "OpenVINO"] and not report["engines"]
    assert any("ONNX Runtime is left out: pip install '.[onnx]'" in line for line in said)
    for record in report["records"]:
        assert 0 < record["seconds"] <= record["median_seconds"]
        assert record["error"] < (0.1 if "fast" in record["engine"] else 1e-5), record
    assert isinstance(report["machine_was_shared"], bool)
    assert torch.get_num_threads() == threads


def test_int8_of_onnx_runtime_and_openvino_computes_the_same_network(folder):
    for module in ("onnxruntime", "onnx", "onnxscript", "openvino"):
        pytest.importorskip(module)
    report = networks.bench_networks(lambda _: None, folder, batches=(1,), repetitions=1)
    errors = {r["engine"]: r["error"] for r in report["records"]}
    rivals = {f"{e} {p}" for e in ("ONNX Runtime", "OpenVINO") for p in ("float32", "int8")}
    assert errors.keys() == OURS | rivals
    assert set(report["engines"]) == {"ONNX Runtime", "OpenVINO"} and not report["missing"]
    for engine in rivals:
        assert (1e-4 < errors[engine] < 0.3) if "int8" in engine else errors[engine] < 1e-5


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
    with pytest.raises(ValueError, match="no packed network"):
        networks.bench_networks(lambda _: None, tmp_path)
