"""Exports to ONNX are many here: what is the same in each of them is found out once."""

from tests.support.done_once import read_sources_of_onnxscript_once

read_sources_of_onnxscript_once()
