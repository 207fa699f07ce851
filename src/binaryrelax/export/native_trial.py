"""Whether the native runtime does with a file what the packed model does, on this machine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from binaryrelax.export.agreement import EIGHT_BITS, FLOAT_BITS, Probes
from binaryrelax.export.isolated_runtime import CannotRun, outputs_of
from binaryrelax.export.native import ROWS, reference_of
from binaryrelax.export.tracing import examples_of, probes_of
from binaryrelax.packed.engines import native

BITS = {"fast": EIGHT_BITS, "exact": FLOAT_BITS}  # to which a mode rounds activations


def difference_in_runtime(
    model: nn.Module, images: Tensor | tuple[Tensor, ...], content: bytes, mode: str
) -> float | None:
    """How far the runtime's outputs are from the model's, as a share of the largest number in them.

    The runtime works in a process of its own: a file that kills it does no harm.

    Args:
        model: the packed model, as ``export_native`` was given it.
        images: inputs to try, or an example of them.
        content: of the file that ``export_native`` has made of it.
        mode: of the file.

    Returns:
        None where the runtime is not installed.

    Raises:
        ValueError: it cannot run the file, or the difference is more than rounding explains.
    """
    if native() is None:
        return None
    probes = native_probes(model, examples_of(images))
    try:
        with TemporaryDirectory() as folder:
            file = Path(folder, "network.brx")
            file.write_bytes(content)
            (found,) = outputs_of("binaryrelax_native", file, probes.inputs, [{}])
    except CannotRun as error:
        raise ValueError(
            f"the native runtime cannot run the network ({error}); nothing was written"
        ) from error
    return probes.check(found, BITS[mode], f"the native runtime in mode {mode!r}")


def native_probes(model: nn.Module, examples: tuple[Tensor, ...]) -> Probes:
    """Rows like those of the example, and what the packed model makes of them in float32."""
    inputs = tuple(example.float() for example in examples)
    return probes_of(reference_of(model), inputs, [torch.float32], counts=ROWS)
