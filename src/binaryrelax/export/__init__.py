"""Packed networks for other runtimes: ONNX and OpenVINO."""

from binaryrelax.export.onnx import export_onnx as export_onnx
from binaryrelax.export.openvino import export_openvino as export_openvino
