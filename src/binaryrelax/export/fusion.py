"""Fewer operations for the same program: what alone follows an operation becomes a part of it.

Codes and scales of packed layers stay as they were trained: a batch normalization after one becomes
the factor and bias of its operation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch
from torch import Tensor

from binaryrelax.export.program import Operation, Parameter, Program, plain

_WITH_FACTOR = ("conv", "linear")
_WITH_ACTIVATION = (*_WITH_FACTOR, "add", "multiply", "affine")


def fused(program: Program) -> Program:
    """The program with affine operations and activations merged, and nothing that is not read."""
    readers = Counter(value for operation in program.operations for value in operation.inputs)
    readers.update(program.outputs)
    operations: dict[int, Operation] = {}  # value -> what writes it
    moved: dict[int, int] = {}  # value of a merged operation -> the value that has taken its place
    for number, operation in program.numbered():
        source = operation.inputs[0]
        before = moved.get(source, source)
        merged = None
        if readers[source] == 1 and before in operations:
            merged = _merged(operations[before], operation)
        if merged is None:
            inputs = tuple(moved.get(value, value) for value in operation.inputs)
            operations[number] = replace(operation, inputs=inputs)
        else:
            operations[before] = merged
            moved[number] = before
    outputs = tuple(moved.get(value, value) for value in program.outputs)
    return _renumbered(program, operations, outputs)


def _merged(first: Operation, then: Operation) -> Operation | None:
    """One operation that does both, if there is one."""
    if first.has_activation:
        return None
    if then.op == "activate" and first.op in _WITH_ACTIVATION:
        return replace(first, settings={**first.settings, **then.settings})
    if then.op == "affine" and first.op == "affine":
        return replace(first, parameters=_after(first.parameters["scale"], first, "shift", then))
    if then.op == "affine" and first.op in _WITH_FACTOR:
        one = torch.ones(1, dtype=torch.float64)
        factor = _after(first.parameters.get("factor", one), first, "bias", then)
        parameters = {"factor": factor["scale"], "bias": factor["bias"]}
        return replace(first, parameters={**first.parameters, **parameters})
    return None


def _after(
    scale: Parameter, first: Operation, shift_role: str, then: Operation
) -> dict[str, Parameter]:
    """Scale and shift of one affine operation after another."""
    shift = first.parameters.get(shift_role, torch.zeros(1))
    outer_scale, outer_shift = then.parameters["scale"], then.parameters["shift"]
    parts = (scale, shift, outer_scale, outer_shift)
    a, b, c, d = (plain(part) for part in parts if isinstance(part, Tensor))
    return {"scale": a * c, shift_role: b * c + d}


def _renumbered(
    program: Program, operations: dict[int, Operation], outputs: tuple[int, ...]
) -> Program:
    """Without the operations that no output is made of."""
    needed = set(outputs)
    for number in sorted(operations, reverse=True):
        if number in needed:
            needed.update(operations[number].inputs)
    kept = [number for number in sorted(operations) if number in needed]
    first = len(program.inputs)
    place = {**{n: n for n in range(first)}, **{n: i for i, n in enumerate(kept, start=first)}}
    renamed = [
        replace(operations[n], inputs=tuple(place[value] for value in operations[n].inputs))
        for n in kept
    ]
    return replace(
        program, operations=tuple(renamed), outputs=tuple(place[value] for value in outputs)
    )
