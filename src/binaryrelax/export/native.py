"""Packed networks as files that the native runtime runs as a whole, without torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save
from torch import Tensor, nn

from binaryrelax.export.agreement import FLOAT_BITS
from binaryrelax.export.calibration import Batch, measured_ranges
from binaryrelax.export.fusion import fused
from binaryrelax.export.interpreter import Interpreter
from binaryrelax.export.lowering import lowered
from binaryrelax.export.program import LayerWeight, Operation, Program
from binaryrelax.export.tracing import copied, examples_of, probes_of
from binaryrelax.packed.atomic_writing import write_atomically
from binaryrelax.packed.layers import set_mode
from binaryrelax.packed.manifest import METADATA_KEY, LayerEntry, Manifest, digest_of_tensors
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.saving import described_layer
from binaryrelax.quantizers.quantizable_layers import unwrapped

_TRACED_ROWS = 2
ROWS = (1, 3)  # of the batches that the program is tried on
_LIKE = 1e-4  # how far outputs may be apart for images of other sizes, beside what rounding does
_LARGE = 2**19  # numbers in an image that is not also tried at twice its size


def export_native(
    model: nn.Module,
    example: Tensor | tuple[Tensor, ...],
    path: str | os.PathLike[str],
    *,
    mode: Literal["fast", "exact"] = "fast",
    calibration: Tensor | Iterable[Batch] | None = None,
    about: Mapping[str, str] | None = None,
) -> None:
    """Writes a packed model as one file that ``binaryrelax_native.load`` runs without torch.

    The file holds the network as a program of few operations. Codes and scales of packed layers are
    the trained ones, bit for bit. Batch normalization after a layer becomes a factor and a bias of
    its operation, and activations become a part of what they follow. The size of the batch, and of
    images where the network takes any, may be others than the example's.

    The program is run in torch before anything is written. It must agree with the model to float32
    rounding. The native runtime need not be installed.

    Args:
        model: what ``pack`` or ``load_packed`` has returned; it stays as it is. ``torch.fx`` must
            be able to trace it.
        example: what the model takes: a tensor, or several in a tuple; maps (N, C, H, W) or
            vectors (N, F).
        path: of the file, mostly with the suffix ".brx"; replaced if it is there, and intact if
            writing fails.
        mode: "fast" lets the runtime round activations to 8 bits; "exact" keeps float32.
        calibration: inputs like those of training, a tensor or several batches one after the
            other. Mode "fast" then takes the range of every activation from them, and not from
            each image anew.
        about: anything to say about the network, key by key; ``certify`` gives it back.

    Raises:
        ValueError: no layer is packed, the model cannot be traced, a layer or call cannot be
            lowered (the message names it and says why), or the program gives other outputs than
            the model; nothing is written.
        OSError: the file cannot be written.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from binaryrelax import Ternary, certify, export_native, pack, select_weights
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> packed, images = pack(model, weights), torch.randn(2, 3, 8, 8)
        >>> export_native(packed, images, "net.brx", calibration=torch.randn(64, 3, 8, 8))
        >>> certify("net.brx", against=packed).ok
        True
    """
    write_atomically(Path(path), native_file(model, example, mode, calibration, about))


def native_file(
    model: nn.Module,
    example: Tensor | tuple[Tensor, ...],
    mode: str,
    calibration: Tensor | Iterable[Batch] | None = None,
    about: Mapping[str, str] | None = None,
) -> bytes:
    """What ``export_native`` writes, with the same arguments and errors."""
    if mode not in ("fast", "exact"):
        raise ValueError(f"export_native(mode={mode!r}): there are 'fast' and 'exact'")
    if mode == "exact" and calibration is not None:
        raise ValueError(
            "export_native(mode='exact', calibration=...): exact activations are not rounded, so "
            "there is nothing to calibrate; leave it out, or choose mode='fast'"
        )
    about = dict(about or {})
    if not all(isinstance(text, str) for pair in about.items() for text in pair):
        raise ValueError(f"export_native(about={about!r}): keys and values must be text")
    program = checked_program(model, example)
    ranges = None if calibration is None else measured_ranges(program, calibration)
    return _content(program, mode, ranges, about)


def checked_program(model: nn.Module, example: Tensor | tuple[Tensor, ...]) -> Program:
    """The program of a packed model, compared with the model on the example and other inputs.

    Raises:
        ValueError: there is none, or it gives other outputs.
    """
    examples = tuple(_in_float32(x) for x in examples_of(example))
    network = reference_of(model)
    program = fused(lowered(network, [x[:_TRACED_ROWS] for x in examples]))
    used = [p for op in program.operations for p in op.parameters.values()]
    if not any(isinstance(p, LayerWeight) for p in used):
        raise ValueError("export_native: the outputs are made of no packed layer")
    for operation in program.operations:
        _refuse_not_finite(operation)
    _compare(network, program, examples)
    return program


def _in_float32(example: Tensor) -> Tensor:
    if not example.is_floating_point() or example.ndim not in (2, 4):
        raise ValueError(
            f"export_native: the example is {example.dtype} of the shape {tuple(example.shape)}; "
            "the runtime takes floats, maps (N, C, H, W) or vectors (N, F)"
        )
    return example.float()


def reference_of(model: nn.Module) -> nn.Module:
    """A copy that computes what the runtime does, in float32."""
    network = unwrapped(model)
    if isinstance(network, PackedLayer):
        network = nn.Sequential(network)
    network = copied(network).cpu().eval().float()
    layers = [module for module in network.modules() if isinstance(module, PackedLayer)]
    if not layers:
        raise ValueError(
            f"export_native: no layer of {type(network).__name__} is packed; "
            "pack(model, weights) first"
        )
    for layer in layers:
        layer.format = replace(layer.format, dtype=torch.float32)
    return set_mode(network, "exact")


def _refuse_not_finite(operation: Operation) -> None:
    for role, held in operation.parameters.items():
        if isinstance(held, Tensor) and not bool(held.float().isfinite().all()):
            raise ValueError(
                f"export_native: the {role} of {operation.name!r} is NaN or infinite in float32"
            )


def _compare(network: nn.Module, program: Program, examples: tuple[Tensor, ...]) -> None:
    interpreter = Interpreter(program)
    probes = probes_of(network, examples, [torch.float32], counts=ROWS)
    found = [interpreter(inputs) for inputs in probes.inputs]
    probes.check(found, FLOAT_BITS, "export_native: the program")
    allowed = _LIKE + 4 * probes.deviations[FLOAT_BITS]
    for shapes in _other_sizes(examples):
        inputs = [torch.rand(shape, generator=torch.Generator().manual_seed(0)) for shape in shapes]
        _compare_for_another_size(network, interpreter, inputs, allowed)


def _other_sizes(examples: tuple[Tensor, ...]) -> list[list[tuple[int, ...]]]:
    """Twice the size of the example's images, and one pixel more; none where there are none."""
    shapes = [tuple(x.shape) for x in examples]
    if not any(len(shape) == 4 for shape in shapes):
        return []
    more = [[(1, *s[1:2], *(n + 1 for n in s[2:])) for s in shapes]]
    if max(x[0].numel() for x in examples) <= _LARGE:
        more.append([(1, *s[1:2], *(2 * n for n in s[2:])) for s in shapes])
    return more


def _compare_for_another_size(
    network: nn.Module, interpreter: Interpreter, inputs: list[Tensor], allowed: float
) -> None:
    """Sizes that Python code has read may be the example's; that must not go unnoticed.

    A size that only the model takes is no harm: the runtime refuses it, too.
    """
    try:
        with torch.no_grad():
            given = network(*inputs)
        found = interpreter(inputs)
    except Exception:  # the model's own code runs: anything can come out of it
        return
    expected = [given] if isinstance(given, Tensor) else list(given)
    for a, b in zip(found, expected, strict=True):
        size = float(b.abs().max()) if b.numel() else 0.0
        if a.shape != b.shape or float((a - b).abs().max()) > allowed * max(size, 1e-30):
            raise ValueError(
                f"export_native: {type(network).__name__} does something else for images of "
                f"{tuple(inputs[0].shape[2:])} pixels than the program made for the example; its "
                "code must not choose by the size of the image; nothing was written"
            )


def _content(
    program: Program,
    mode: str,
    ranges: list[tuple[float, float] | None] | None,
    about: dict[str, str],
) -> bytes:
    """The whole file."""
    stored = _Stored()
    operations = []
    for operation in program.operations:
        named = {role: stored.name(operation, role) for role in operation.parameters}
        operations.append(operation.to_plain(named))
    count = len(program.inputs) + len(operations)
    described = {
        "mode": mode,
        "inputs": [list(shape) for shape in program.inputs],
        "operations": operations,
        "outputs": list(program.outputs),
        "ranges": [None] * count
        if ranges is None
        else [limits and list(limits) for limits in ranges],
        "layout": program.layout,
    }
    manifest = Manifest(stored.layers, stored.digests, stored.tied, (), about, described)
    return save(stored.tensors, metadata={METADATA_KEY: manifest.to_json()})


class _Stored:
    """The tensors of a file, by their names, and what the manifest says of them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.layers: dict[str, LayerEntry] = {}
        self.digests: dict[str, str] = {}
        self.tied: dict[str, str] = {}
        self._names: dict[Any, str] = {}

    def name(self, operation: Operation, role: str) -> str:
        """The name under which the operation's parameter is stored."""
        held = operation.parameters[role]
        if isinstance(held, LayerWeight):
            key: Any = held.layer, held.kind
            return self._names.get(key) or self._layer(key, held)
        key = held.data_ptr(), tuple(held.shape), held.dtype
        return self._names.get(key) or self._float(key, held, f"{operation.name}.{role}")

    def _layer(self, key: Any, held: LayerWeight) -> str:
        # A matrix that is also used for maps of one pixel has a second entry, and one tensor.
        name = held.layer if held.layer not in self.layers else f"{held.layer}.pixel"
        self._names[key] = name
        entry, codes = described_layer(held.kind, held.weight)
        self.layers[name] = entry
        memory = held.weight.codes.data_ptr(), held.weight.scale.data_ptr(), entry.layout
        owner = self._names.setdefault(memory, name)
        for part, tensor in (("codes", codes), ("scale", held.weight.scale)):
            if owner == name:
                self.tensors[f"{name}.{part}"] = tensor.detach().cpu().contiguous().clone()
            else:
                self.tied[f"{name}.{part}"] = f"{owner}.{part}"
        return name

    def _float(self, key: Any, held: Tensor, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.tensors or name in self.tied:
            count += 1
            name = f"{wanted}.{count}"
        self._names[key] = name
        self.tensors[name] = held.detach().float().contiguous().clone()
        self.digests[name] = digest_of_tensors(self.tensors[name])
        return name
