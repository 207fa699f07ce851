"""A float network in ONNX Runtime and OpenVINO, in float32 and in int8; neither is needed.

int8 is what their users would pick: static quantization in QDQ form, weights per channel, the
ranges of the activations measured on images. Both run times read the same two files.
"""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryrelax.export.tracing import without_remarks
from binaryrelax_lab.studies.bench.rivals import (
    Run,
    onnx_runtime_session,
    openvino_core,
    openvino_request,
)

EXTRAS = {"ONNX Runtime": "onnx", "OpenVINO": "openvino"}  # engine -> extra that installs it
MODULES = {"ONNX Runtime": ("onnx", "onnxscript", "onnxruntime"), "OpenVINO": ("openvino",)}


def missing_engines() -> list[str]:
    """The engines that are not installed; the int8 file is made by ONNX Runtime for both."""
    absent = [e for e, modules in MODULES.items() if not all(map(find_spec, modules))]
    return list(MODULES) if "ONNX Runtime" in absent else absent


def integer_rivals(model: nn.Module, images: Tensor, batch: int) -> dict[str, Run]:
    """The float model at a fixed batch size in every engine that is installed.

    Args:
        images: calibrate the int8 files; their number is a multiple of the batch size.
    """
    missing = missing_engines()
    if "ONNX Runtime" in missing:
        return {}
    rivals = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision, path in _files(model, images, batch, Path(folder)).items():
            rivals[f"ONNX Runtime {precision}"] = onnx_runtime_session(path)
            if "OpenVINO" not in missing:
                rivals[f"OpenVINO {precision}"] = openvino_request(openvino_core().read_model(path))
    return rivals


def _files(model: nn.Module, images: Tensor, batch: int, folder: Path) -> dict[str, Path]:
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
