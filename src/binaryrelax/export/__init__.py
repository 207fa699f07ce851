"""Packed networks for other runtimes: our own, ONNX and OpenVINO."""

from binaryrelax.export.acceleration import accelerate as accelerate
from binaryrelax.export.native import export_native as export_native
from binaryrelax.export.onnx import export_onnx as export_onnx
from binaryrelax.export.openvino import export_openvino as export_openvino
