"""ONNX Runtime and OpenVINO, running what we export, with two threads."""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax.lab.bench.packed_effort import Run
from binaryrelax.packed.export.tracing import without_remarks


def float_rivals(model: nn.Module, example: Tensor) -> dict[str, Run]:
    """The float model in every run time that is installed."""
    rivals = {}
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("onnxruntime") and find_spec("onnx"):
            path = Path(folder) / "model.onnx"
            _export_float(model, example, path)
            rivals["ONNX Runtime"] = _onnx_runtime(path)
        if find_spec("openvino"):
            import openvino

            shape = [-1, *example.shape[1:]]
            converted = openvino.convert_model(model, example_input=example, input=[shape])
            rivals["OpenVINO"] = _openvino(converted)
    return rivals


def packed_rivals(model: nn.Module, example: Tensor) -> dict[str, Run]:
    """The packed model in every run time that is installed, as we export it."""
    rivals = {}
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("onnxruntime") and find_spec("onnx"):
            from binaryrelax.packed.export.onnx import export_onnx

            path = Path(folder) / "model.onnx"
            export_onnx(model, example, path)
            rivals["ONNX Runtime"] = _onnx_runtime(path)
        if find_spec("openvino"):
            import openvino

            from binaryrelax.packed.export.openvino import export_openvino

            path = Path(folder) / "model.xml"
            export_openvino(model, example, path)
            rivals["OpenVINO"] = _openvino(openvino.Core().read_model(path))
    return rivals


def _export_float(model: nn.Module, example: Tensor, path: Path) -> None:
    batch = torch.export.Dim("batch")
    with without_remarks():
        torch.onnx.export(
            model.eval(), (example,), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False
        )


def _onnx_runtime(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x.numpy()})


def _openvino(model: Any) -> Run:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def run(x: Tensor) -> list[Any]:
        request.infer({0: x.numpy()}, share_inputs=True, share_outputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run
