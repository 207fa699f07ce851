"""Packed models in PyTorch that run as one program of the native runtime."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import torch
from torch import Tensor, nn

from binaryrelax.export.accelerated_forward import AcceleratedForward, Container
from binaryrelax.export.agreement import Probes
from binaryrelax.export.calibration import Batch
from binaryrelax.export.native import native_file, reference_of
from binaryrelax.export.native_trial import BITS, native_probes
from binaryrelax.export.requirements import MissingExtra
from binaryrelax.export.tracing import examples_of
from binaryrelax.packed.engines import ModeName, mode_named, native
from binaryrelax.packed.layers import set_mode
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.quantizers.quantizable_layers import unwrapped

_TRIED = 16  # rows of calibration images


def accelerate(
    model: nn.Module,
    example: Tensor | tuple[Tensor, ...],
    *,
    mode: ModeName = "exact",
    calibration: Tensor | Iterable[Batch] | None = None,
) -> nn.Module:
    """Lets the native runtime run a packed model as a whole, and returns the model.

    The model is called as before. Where it can, a call runs the program that ``export_native``
    would write: batch normalization and activations are a part of what they follow, and nothing
    returns to Python in between. That is so if

    - the model and all its parts are in evaluation mode,
    - no gradient is wanted: under ``torch.no_grad()`` or ``torch.inference_mode()``, or where no
      parameter asks for one,
    - inputs are plain tensors of float32 on the CPU, of a size that the program takes, and not
      traced, compiled or under autocast,
    - no part has hooks, and the model is as it was.

    Every other call runs the model's own code, packed layer by packed layer. Parameters, buffers
    or layers that were changed, a mode set by ``set_mode`` and parameters that ask for gradients
    in evaluation mode are told by a warning, once each. Not seen are writes that torch does not
    count, through ``.data`` or NumPy, and other attributes of layers. Training goes on as before;
    call ``accelerate`` again when it has changed the model.

    State dicts, files, copies and pickles are those of a packed model; copies and pickles run in
    the runtime, too. ``del model.forward`` undoes it.

    Args:
        model: what ``pack`` or ``load_packed`` has returned, or a part of it; float32, on the CPU.
        example: what the model takes: a tensor, or several in a tuple. Calls may have other
            numbers of rows and, where the network takes them, other sizes of images.
        mode: "exact" computes in float32; "fast" rounds activations to 8 bits. Packed layers are
            set to it, for the calls that they run themselves.
        calibration: as for ``export_native``; for mode "fast" alone.

    Raises:
        ImportError: binaryrelax-native is not installed.
        ValueError: the model cannot be lowered (the message names what and says why), or the
            runtime gives other outputs than rounding explains; the model is as it was.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, accelerate, pack, select_weights
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> images = torch.randn(2, 3, 8, 8)
        >>> expected = pack(model, weights).eval()(images)
        >>> accelerate(model, images) is model
        True
        >>> with torch.inference_mode():
        ...     found = model(images)
        >>> torch.allclose(found, expected, atol=1e-5)
        True
    """
    mode_named(mode)
    if native() is None:
        raise MissingExtra(
            "accelerate needs binaryrelax-native: pip install ./native in the source folder"
        )
    network = unwrapped(model)
    _require_own_forward(network)
    _require_float32_on_cpu(network)
    examples = examples_of(example)
    tried, calibration = (examples, None) if calibration is None else _first_rows(calibration)
    try:
        content = native_file(network, examples, mode, calibration)
    except ValueError as error:
        raise ValueError(f"accelerate: {error}") from error
    shapes, container = [tuple(x.shape[1:]) for x in examples], _container(network, examples)
    forward = AcceleratedForward(network, content, shapes, container, mode)
    _try(forward, native_probes(network, tried), mode)
    set_mode(network, mode)
    network.forward = forward
    return model


def _require_own_forward(network: nn.Module) -> None:
    forward = vars(network).get("forward")
    if forward is not None and not isinstance(forward, AcceleratedForward):
        raise ValueError(
            f"accelerate: the forward of this {type(network).__name__} was replaced by "
            f"{getattr(forward, '__name__', type(forward).__name__)!r}; del model.forward first"
        )


def _require_float32_on_cpu(network: nn.Module) -> None:
    tensors = [*network.named_parameters(), *network.named_buffers()]
    kinds = {(t.device.type, t.dtype) for _, t in tensors if t.is_floating_point()}
    kinds |= {("cpu", m.dtype) for m in network.modules() if isinstance(m, PackedLayer)}
    if kinds != {("cpu", torch.float32)}:
        found = ", ".join(sorted(f"{dtype} on {device}" for device, dtype in kinds))
        raise ValueError(
            f"accelerate: the model holds {found}; the runtime computes in float32 on the CPU: "
            "model.float().cpu() first"
        )
    for name, tensor in tensors:
        if tensor.is_inference():
            raise ValueError(
                f"accelerate: {name!r} was made under torch.inference_mode(), where torch does not "
                "count writes to it; make or load the model outside"
            )


def _first_rows(
    calibration: Tensor | Iterable[Batch],
) -> tuple[tuple[Tensor, ...], Iterable[Batch]]:
    """Some images of a calibration, and all of it: an iterator gives its batches once."""
    batches = iter([calibration] if isinstance(calibration, Tensor) else calibration)
    first = next(batches, None)
    if first is None:
        raise ValueError("accelerate(calibration=...): it holds no images")
    inputs = (first,) if isinstance(first, Tensor) else tuple(first)
    return examples_of(tuple(x[:_TRIED] for x in inputs)), chain([first], batches)


def _container(network: nn.Module, examples: tuple[Tensor, ...]) -> Container | None:
    """What the model puts its outputs into; None for a single tensor."""
    with torch.no_grad():
        output = reference_of(network)(*examples)
    if type(output) not in (Tensor, tuple, list):
        raise ValueError(
            f"accelerate: {type(network).__name__} gives a {type(output).__name__}; "
            "have it give a tensor, a tuple or a list"
        )
    return None if isinstance(output, Tensor) else type(output)


def _try(forward: AcceleratedForward, probes: Probes, mode: ModeName) -> None:
    found = [forward.run(inputs) for inputs in probes.inputs]
    outputs = [[output] if isinstance(output, Tensor) else output for output in found]
    where = f"accelerate: the native runtime in mode {mode!r}"
    probes.check(outputs, BITS[mode], where, "the model is as it was")
