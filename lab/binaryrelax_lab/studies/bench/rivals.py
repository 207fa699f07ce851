"""Other libraries with the same weights, to compare with; none of them is needed.

Packed networks: ONNX Runtime and OpenVINO, which run what we export, and gemlite on a GPU.
Training: BinaryRelax as torchao's PARQ has it. Ternary projection: torchao's LSBQuantizer.
"""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from binaryrelax import export_onnx, export_openvino
from binaryrelax.export.tracing import without_remarks
from binaryrelax_lab.studies import Say

Run = Callable[[Tensor], Any]
GROUP = 128  # weights that share a scale; gemlite knows no larger groups at all bit widths
NUM_STEPS = 1_000_000  # far more than a benchmark takes: PARQ stays in its first phase


def float_rivals(model: nn.Module, example: Tensor) -> dict[str, Run]:
    """The float model in every run time that is installed, with as many threads as torch."""

    def converted(path: Path) -> Any:
        import openvino

        shape = [-1, *example.shape[1:]]
        return openvino.convert_model(model, example_input=example, input=[shape])

    return _run_times(partial(_export_float, model, example), converted)


def packed_rivals(model: nn.Module, example: Tensor) -> dict[str, Run]:
    """The packed model in every run time that is installed, as we export it."""

    def exported(path: Path) -> Any:
        export_openvino(model, example, path)
        return openvino_core().read_model(path)

    return _run_times(partial(export_onnx, model, example), exported)


def _run_times(
    write_onnx: Callable[[Path], object], openvino_model: Callable[[Path], Any]
) -> dict[str, Run]:
    rivals = {}
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("onnxruntime") and find_spec("onnx"):
            path = Path(folder) / "model.onnx"
            write_onnx(path)
            rivals["ONNX Runtime"] = onnx_runtime_session(path)
        if find_spec("openvino"):
            rivals["OpenVINO"] = openvino_request(openvino_model(Path(folder) / "model.xml"))
    return rivals


def _export_float(model: nn.Module, example: Tensor, path: Path) -> None:
    batch = torch.export.Dim("batch")
    with without_remarks():
        torch.onnx.export(
            model.eval(), (example,), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False
        )


def onnx_runtime_session(path: Path) -> Run:
    """An ONNX file in ONNX Runtime, with as many threads as torch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x.numpy()})


@cache
def openvino_core() -> Any:
    """The one core of this process, for good.

    Each core sets a stack for signal handlers. Where two live at a time, the first to go takes the
    stack along that the other restores, and the next handled signal kills the process (2026.4).
    """
    import openvino

    return openvino.Core()


def openvino_request(model: Any, precision: str | None = "f32") -> Run:
    """A model that OpenVINO has read, compiled, with as many threads as torch.

    Args:
        precision: of what is not int8 in the model; None leaves the choice to OpenVINO.
    """
    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "PERFORMANCE_HINT": "LATENCY"}
    if precision is not None:
        settings["INFERENCE_PRECISION_HINT"] = precision
    compiled = openvino_core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def run(x: Tensor) -> list[Any]:
        request.infer({0: x.numpy()}, share_inputs=True, share_outputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run


def gemlite_layer(codes: Tensor, scale: Tensor, bits: int, dtype: torch.dtype) -> Any:
    """Its layer with the weights scale * level; codes are one byte each, (outputs, inputs).

    Raises:
        ImportError: gemlite is not installed.
    """
    from gemlite.core import DType, GemLiteLinear

    outputs, inputs = codes.shape
    kind = DType.BF16 if dtype == torch.bfloat16 else DType.FP16
    layer = GemLiteLinear(
        bits,
        group_size=GROUP,
        in_features=inputs,
        out_features=outputs,
        input_dtype=kind,
        output_dtype=kind,
    )
    num_groups = outputs * inputs // GROUP
    # It computes (code - zero) * scale: half a step for -1 and 1, a whole one for -1, 0 and 1.
    step, zero = (2.0, 0.5) if bits == 1 else (1.0, 1.0)
    scales = (scale * step).to(dtype).expand(num_groups, 1).contiguous()
    layer.pack(codes, scales, torch.full_like(scales, zero), None)
    return layer


def parq_optimizer(model: nn.Module, *, fused: bool) -> Optimizer:
    """SGD around which PARQ relaxes all convolutions to one bit, refreshing Q at every step.

    Raises:
        ImportError: torchao is not installed.
    """
    from torchao.prototype.parq.optim import ProxBinaryRelax, QuantOptimizer
    from torchao.prototype.parq.quant import LSBQuantizer

    convolutions = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d)]
    known = {id(weight) for weight in convolutions}
    others = [p for p in model.parameters() if id(p) not in known]
    groups: list[dict[str, Any]] = [{"params": convolutions, "quant_bits": 1}, {"params": others}]
    base = SGD(groups, lr=0.1, momentum=0.95, weight_decay=1e-4, fused=fused or None)
    return QuantOptimizer(
        base, LSBQuantizer(), ProxBinaryRelax(0, NUM_STEPS), warmup_steps=0, quant_period=1
    )


def lsbq_methods(say: Say) -> dict[str, Callable[[Tensor], Tensor]]:
    """Its least-squares ternary: whole tensor, one row of a matrix, and its default.

    None of them if torchao is not installed, and `say` is told.
    """
    try:
        from torchao.prototype.parq.quant.lsbq import LSBQuantizer
    except ImportError:
        say("torchao is not installed: its rows are left out (pip can install it alone)")
        return {}
    optimal, simple = LSBQuantizer(optimal=True), LSBQuantizer()
    return {
        "torchao LSBQ optimal": lambda w: optimal.quantize(w, 0)[0],
        "torchao LSBQ optimal, dim=-1": lambda w: optimal.quantize(w[None], 0, dim=-1)[0][0],
        "torchao LSBQ default": lambda w: simple.quantize(w, 0)[0],
    }
