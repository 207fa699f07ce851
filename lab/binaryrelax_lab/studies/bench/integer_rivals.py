"""A float network in other engines, in float32 and in int8; none of them is needed.

int8 is what their users would pick: static quantization, weights per channel, the ranges of the
activations measured on images. ONNX Runtime and OpenVINO read the same two files, the int8 one in
QDQ form with unsigned activations; symmetric ones are slower in both, and OpenVINO cannot read
ONNX Runtime's other form. torch's int8 is that of its own graph mode.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from binaryrelax.export.tracing import without_remarks
from binaryrelax_lab.studies.bench.rivals import (
    Run,
    onnx_runtime_session,
    openvino_core,
    openvino_request,
)

EXTRAS = {"ONNX Runtime": "onnx", "OpenVINO": "openvino"}  # engine -> extra that installs it
MODULES = {"ONNX Runtime": ("onnx", "onnxscript", "onnxruntime"), "OpenVINO": ("openvino",)}
CALIBRATION_BATCH = 16


def missing_engines() -> list[str]:
    """The engines that are not installed; the int8 file is made by ONNX Runtime for both."""
    absent = [e for e, modules in MODULES.items() if not all(map(find_spec, modules))]
    return list(MODULES) if "ONNX Runtime" in absent else absent


def onnx_files(model: nn.Module, images: Tensor, batch: int, folder: Path) -> dict[str, Path]:
    """The float model at a fixed batch size as ONNX files, by precision.

    Args:
        images: calibrate the int8 file; their number is a multiple of the batch size.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    written, fused, integers = (folder / f"{name}.onnx" for name in ("float", "fused", "int8"))
    with without_remarks(), _silent_log():
        torch.onnx.export(
            model.eval(),
            (images[:batch],),
            written,
            input_names=["images"],
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        quant_pre_process(written, fused, skip_symbolic_shape=True)
        quantize_static(
            fused,
            integers,
            _Calibration(images, batch),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    return {"float32": written, "int8": integers}


def engine_rivals(files: Mapping[str, Path]) -> dict[str, Run]:
    """Those files in ONNX Runtime and, where it is installed, in OpenVINO.

    OpenVINO's own choice of precision is a third of its sides: on some CPUs it is bfloat16.
    """
    rivals = {
        f"ONNX Runtime {precision}": onnx_runtime_session(f) for precision, f in files.items()
    }
    if "OpenVINO" not in missing_engines():
        read = openvino_core().read_model
        rivals |= {f"OpenVINO {p}": openvino_request(read(file)) for p, file in files.items()}
        rivals["OpenVINO, its own precision"] = openvino_request(read(files["float32"]), None)
    return rivals


def torch_int8(model: nn.Module, images: Tensor) -> Run:
    """The float model, quantized by torch itself with its settings for x86.

    Args:
        images: measure the ranges of the activations.
    """
    from torch.ao.quantization import get_default_qconfig_mapping, quantize_fx

    batches = images.split(CALIBRATION_BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao goes to torchao one day
        traced = _with_pooling(fx.symbolic_trace(model.eval()))
        prepared = quantize_fx.prepare_fx(traced, get_default_qconfig_mapping("x86"), batches[0])
        for batch in batches:
            prepared(batch)
        quantized = quantize_fx.convert_fx(prepared)
    return partial(in_channels_last, quantized)


def in_channels_last(model: nn.Module, x: Tensor) -> Any:
    """The model with images laid out as torch's convolutions like them best."""
    return model(x.contiguous(memory_format=torch.channels_last))


def _with_pooling(traced: fx.GraphModule) -> fx.GraphModule:
    """Means over the pixels as poolings: torch has no int8 mean in channels_last."""
    for node in traced.graph.nodes:
        if node.op == "call_method" and node.target == "mean":
            with traced.graph.inserting_before(node):
                pooled = traced.graph.call_function(
                    functional.adaptive_avg_pool2d, (node.args[0], 1)
                )
                flat = traced.graph.call_function(torch.flatten, (pooled, 1))
            node.replace_all_uses_with(flat)
            traced.graph.erase_node(node)
    traced.recompile()
    return traced


class _Calibration:
    """The batches of images, one by one, as ONNX Runtime asks for them."""

    def __init__(self, images: Tensor, batch: int) -> None:
        self._batches = iter(images.split(batch))

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch.numpy()}


@contextmanager
def _silent_log() -> Iterator[None]:
    """Without the remarks that quantization logs."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
