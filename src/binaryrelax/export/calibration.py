"""The range of every value of a program, from images to calibrate with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from binaryrelax.export.byte_ranges import Histogram
from binaryrelax.export.interpreter import Interpreter
from binaryrelax.export.program import Program

Batch = Tensor | tuple[Tensor, ...]
_ROWS = 16  # at a time: a program keeps many values
_SMALL = 1 << 14  # numbers of an image whose floats stay in the caches nearest to two cores


def measured_ranges(
    program: Program, calibration: Tensor | Iterable[Batch]
) -> list[tuple[float, float] | None]:
    """What bytes of every value should cover, inputs first: the ends that round it best.

    Values are computed in float32. Small ones that shortcuts carry have none: their errors reach
    the output by every way, so that they stay in floats, and layers read bytes whose range is each
    image's own.

    Args:
        program: whose values are measured.
        calibration: a batch of inputs, or several one after the other.

    Raises:
        ValueError: there are no images, they do not fit, or they or values are NaN or infinite.
    """
    interpreter = Interpreter(program)
    histograms: dict[int, Histogram] = {}
    sizes: dict[int, int] = {}

    def watch(number: int, value: Tensor) -> None:
        if not bool(value.isfinite().all()):
            raise ValueError(
                f"export_native(calibration=...): {_described(program, number)} is NaN or infinite"
            )
        histograms.setdefault(number, Histogram()).add(value)
        sizes[number] = max(sizes.get(number, 0), value[0].numel())

    for inputs in _batches(program, calibration):
        try:
            interpreter(inputs, watch)
        except RuntimeError as error:  # torch's, of an operation
            shapes = " and ".join(str(tuple(x.shape)) for x in inputs)
            reason = " ".join(str(error).split())[:200]
            raise ValueError(
                f"export_native(calibration=...): the program made for the example does not take "
                f"{shapes}; give images of the example's size ({reason})"
            ) from None
    if not histograms:
        raise ValueError("export_native(calibration=...): it holds no images")
    # Where numbers have both signs, an image's own range lies evenly around zero and is no better.
    in_floats = {
        number
        for number in _carried(program)
        if histograms[number].low >= 0 and sizes[number] <= _SMALL
    }
    return [
        None if number in in_floats else histograms[number].byte_range()
        for number in sorted(histograms)
    ]


def _carried(program: Program) -> set[int]:
    """The values of shortcuts: sums, and what is added while others read it; but none that is cut.

    Bytes are cut and padded on the way to the layer that reads them, floats in steps of their own.
    """
    readers = defaultdict(list)
    for number, operation in program.numbered():
        for value in operation.inputs:
            readers[value].append((number, operation.op))
    sums = {number for number, operation in program.numbered() if operation.op == "add"}
    shared = {
        value
        for value, found in readers.items()
        if len(found) > 1 and any(number in sums for number, _ in found)
    }
    cut = {
        value for value, found in readers.items() if any(op in ("slice", "pad") for _, op in found)
    }
    return (sums | shared) - cut


def _described(program: Program, number: int) -> str:
    if number < len(program.inputs):
        return f"input {number}"
    return f"what {program.operations[number - len(program.inputs)].name!r} makes of its images"


def _batches(
    program: Program, calibration: Tensor | Iterable[Batch]
) -> Iterator[tuple[Tensor, ...]]:
    """Few rows at a time, checked."""
    for batch in [calibration] if isinstance(calibration, Tensor) else calibration:
        inputs = (batch,) if isinstance(batch, Tensor) else tuple(batch)
        _check(program, inputs)
        for start in range(0, len(inputs[0]), _ROWS):
            yield tuple(x[start : start + _ROWS].detach().cpu().float() for x in inputs)


def _check(program: Program, inputs: tuple[Tensor, ...]) -> None:
    """Maps may be of other sizes than the example; channels and features may not."""
    found = [tuple(getattr(x, "shape", ())) for x in inputs]
    fits = len(found) == len(program.inputs) and all(
        len(shape) == len(wanted) + 1 and shape[1] == wanted[0]
        for shape, wanted in zip(found, program.inputs, strict=True)
    )
    if not fits or len({shape[0] for shape in found}) != 1:
        wanted = " and ".join(f"(N, {', '.join(map(str, shape))})" for shape in program.inputs)
        raise ValueError(
            f"export_native(calibration=...): a batch is of the shapes {found}, not {wanted}; "
            "give the network's inputs alone, without labels"
        )
    if not all(torch.is_floating_point(x) for x in inputs):
        raise ValueError("export_native(calibration=...): images are no floats, as in training")
