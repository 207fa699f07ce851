"""What the engines make of exported networks, with their own defaults."""

from pathlib import Path

import torch
from torch import Tensor

from binaryrelax.export import export_onnx, export_openvino
from tests.packed.random_networks.truth import Outputs


def run_onnx(path: Path, batches: list[Tensor]) -> Outputs:
    """The outputs of ONNX Runtime with a default session."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    (entry,) = session.get_inputs()
    names = [value.name for value in session.get_outputs()]
    found = []
    for x in batches:
        binding = session.io_binding()
        binding.bind_ortvalue_input(entry.name, _ort_value(onnxruntime, x))
        for name in names:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        found.append([_tensor_of(value) for value in binding.get_outputs()])
    return found


def _ort_value(onnxruntime, x: Tensor):
    make, x = onnxruntime.OrtValue, x.contiguous()
    if x.dtype == torch.bfloat16:  # numpy has no such type; 16 is ONNX's number for it
        return make.ortvalue_from_numpy_with_onnx_type(x.view(torch.int16).numpy(), 16)
    return make.ortvalue_from_numpy(x.numpy())


def _tensor_of(value) -> Tensor:
    if value.data_type() == "tensor(bfloat16)":
        return torch.from_dlpack(value._ortvalue.to_dlpack()).clone()
    return torch.from_numpy(value.numpy().copy())


def run_openvino(path: Path, batches: list[Tensor]) -> Outputs:
    """The outputs of OpenVINO on the CPU, with nothing configured."""
    import openvino

    network = openvino.compile_model(path, "CPU")
    found = []
    for x in batches:
        x = x.contiguous()
        fed = x.numpy() if x.dtype != torch.bfloat16 else x.view(torch.int16).numpy()
        if x.dtype == torch.bfloat16:
            fed = openvino.Tensor(fed, openvino.Shape(x.shape), openvino.Type.bf16)
        request = network.create_infer_request()
        request.infer([fed])
        found.append([_from_openvino(tensor) for tensor in request.output_tensors])
    return found


def _from_openvino(tensor) -> Tensor:
    if tensor.element_type.get_type_name() == "bf16":
        content = torch.from_numpy(tensor.data.view("int16").copy())
        return content.view(torch.bfloat16)
    return torch.from_numpy(tensor.data.copy())


EXPORTS = {  # what writes, what runs, options, what is rounded
    "onnx exact": (export_onnx, run_onnx, {"exact": True}, ()),
    "onnx": (export_onnx, run_onnx, {}, ("int8",)),
    "openvino exact": (export_openvino, run_openvino, {"exact": True}, ("bfloat16",)),
    "openvino": (export_openvino, run_openvino, {}, ("int8", "bfloat16")),
}
