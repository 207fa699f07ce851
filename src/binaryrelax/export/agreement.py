"""Whether a run time gives the outputs of the packed model, found out before a file is written.

Run times have wrong kernels for some sizes of low-bit weights. Such a network loads and runs, and
its outputs are noise. So every export runs a few rows through the run time, with its own defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

EIGHT_BITS = 8  # activations of 8 bits, or bfloat16
FLOAT_BITS = 20  # float32 rounding, and what the order of a sum changes
_ALLOWED = {EIGHT_BITS: 0.03, FLOAT_BITS: 1e-4}  # beside what rounding does to this network
_ROWS = (1, 5, 17)  # kernels differ for a vector, a few rows and more of them
_ROWS_OF_LARGE_INPUTS = (1, 2)
_LARGE_INPUT = 2**18  # numbers in a row


@dataclass(frozen=True)
class Probe:
    """Inputs, and the outputs of the packed model for them."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Probes:
    """Probes of several row counts, and how much rounding changes the outputs of this model.

    Args:
        probes: one per row count.
        largest: the largest number in each output; a float output has one, others have none.
        deviations: by bits, how far outputs move when every layer, packed or float, rounds its
            input to them, as a share of the largest number. Networks differ in how much they
            amplify.
        resolution: of the coarsest float type that the model computes in.
    """

    probes: list[Probe]
    largest: list[float | None]
    deviations: dict[int, float]
    resolution: float

    @property
    def fit_arrays(self) -> bool:
        """Whether NumPy has their types: it has no bfloat16."""
        tensors = [x for probe in self.probes for x in (*probe.inputs, *probe.outputs)]
        return all(tensor.dtype != torch.bfloat16 for tensor in tensors)

    @property
    def inputs(self) -> list[tuple[Tensor, ...]]:
        """What to run; nothing where NumPy cannot hold it."""
        return [probe.inputs for probe in self.probes] if self.fit_arrays else []

    def check(
        self,
        outputs: Sequence[Sequence[Tensor]],
        bits: int,
        where: str,
        consequence: str = "nothing was written",
    ) -> float:
        """Compares what a run time has made of ``inputs``.

        Args:
            outputs: of the exported network, for each of ``inputs``.
            bits: to which the exported network rounds activations.
            where: the export and the run time, for the message.
            consequence: what it ends with.

        Returns:
            The largest difference, as a share of the largest number in its output.

        Raises:
            ValueError: an output differs by more than rounding explains.
        """
        allowed = _ALLOWED[bits] + 8 * self.resolution + 4 * self.deviations[bits]
        errors = {
            len(probe.inputs[0]): _largest_error(found, probe.outputs, self.largest)
            for found, probe in zip(outputs, self.probes, strict=False)
        }
        rows, worst = max(errors.items(), key=lambda item: item[1], default=(0, 0.0))
        if worst > allowed:
            raise ValueError(
                f"{where} gives other outputs than the packed model: with {rows} rows they differ "
                f"by {worst:.2g} of the largest one, and rounding explains {allowed:.2g}; "
                f"{consequence}"
            )
        return worst


def make_probes(
    network: nn.Module,
    examples: tuple[Tensor, ...],
    dtypes: Sequence[torch.dtype],
    counts: Sequence[int] = _ROWS,
) -> Probes:
    """Rows like those of the example, and what the model makes of them.

    Args:
        network: the packed model, on the CPU and in evaluation mode.
        examples: what it takes.
        dtypes: in which the packed layers compute.
        counts: of rows, for inputs that are not large.
    """
    is_large = max(example[0].numel() for example in examples) > _LARGE_INPUT
    counts = _ROWS_OF_LARGE_INPUTS if is_large else counts
    probes = [_probe(network, _with_rows(examples, count)) for count in counts]
    middle = probes[1]
    largest = [_largest(outputs) for outputs in zip(*(p.outputs for p in probes), strict=True)]
    layers = [module for module in network.modules() if not list(module.children())]
    deviations = {}
    for bits in _ALLOWED:
        with _rounded_inputs(layers, bits):
            rounded = _probe(network, middle.inputs).outputs
        deviations[bits] = _largest_error(rounded, middle.outputs, largest)
    floats = [output.dtype for output in middle.outputs if output.is_floating_point()]
    resolution = max((torch.finfo(dtype).eps for dtype in (*floats, *dtypes)), default=0.0)
    return Probes(probes, largest, deviations, resolution)


def _probe(network: nn.Module, inputs: tuple[Tensor, ...]) -> Probe:
    with torch.no_grad():
        outputs = tree_leaves(network(*inputs))
    return Probe(inputs, tuple(output for output in outputs if isinstance(output, Tensor)))


def _with_rows(examples: tuple[Tensor, ...], count: int) -> tuple[Tensor, ...]:
    """The rows of the examples again and again; noise where a float example has one value only."""
    generator = torch.Generator().manual_seed(count)
    inputs = []
    for example in examples:
        rows = example[torch.arange(count) % len(example)]
        if rows.is_floating_point() and bool((example == example.flatten()[0]).all()):
            rows = torch.randn(rows.shape, generator=generator).to(rows.dtype)
        inputs.append(rows)
    return tuple(inputs)


@contextmanager
def _rounded_inputs(layers: Sequence[nn.Module], bits: int) -> Iterator[None]:
    handles = [
        layer.register_forward_pre_hook(lambda _, args: tuple(_rounded(x, bits) for x in args))
        for layer in layers
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rounded(x: Any, bits: int) -> Any:
    """Whole multiples of a step, one step per row, so that the largest number takes all bits."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.numel() == 0:
        return x
    dims = tuple(range(min(1, x.ndim - 1), x.ndim))
    step = x.float().abs().amax(dims, keepdim=True) / (2 ** (bits - 1) - 1)
    return torch.where(step > 0, (x / step).round() * step, x).to(x.dtype)


def _largest(outputs: Sequence[Tensor]) -> float | None:
    """The largest number in an output of several probes; None if they are no floats.

    Whole numbers and truth values are not compared: a class may change when a score hardly does.
    """
    if not outputs[0].is_floating_point():
        return None
    sizes = [output[output.isfinite()].abs().double() for output in outputs]
    return max((float(size.max()) for size in sizes if size.numel()), default=0.0)


def _largest_error(
    found: Sequence[Tensor], expected: Sequence[Tensor], largest: Sequence[float | None]
) -> float:
    """The largest difference, as a share of the largest number in its output."""
    triples = zip(found, expected, largest, strict=True)
    return max((_error(a, b, size) for a, b, size in triples if size is not None), default=0.0)


def _error(found: Tensor, expected: Tensor, largest: float) -> float:
    # Not the shape: with one row, torch's squeeze() takes away what the graph has to keep.
    if found.numel() != expected.numel():
        return math.inf
    a, b = found.double().flatten(), expected.double().flatten()
    difference = (a - b)[b.isfinite()].abs().nan_to_num(nan=math.inf)
    worst = float(difference.max()) if difference.numel() else 0.0
    return worst / max(largest, torch.finfo(torch.float32).tiny)
