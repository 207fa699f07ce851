"""Packed networks for other runtimes: ONNX and OpenVINO."""

from binaryrelax.packed.export.onnx import export_onnx as export_onnx
from binaryrelax.packed.export.openvino import export_openvino as export_openvino
