"""Whether a file holds the very layers of a packed model, or of another file."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from binaryrelax.packed.file import PackedFile
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.packed_weight import PackedWeight
from binaryrelax.quantizers.quantizable_layers import plain_name, unwrapped

Against = nn.Module | str | os.PathLike[str]


def first_difference(file: PackedFile, against: Against) -> str | None:
    """The first layer that only one of both has, or that differs in a bit; None if all are equal.

    Raises:
        PackedFileError: what to compare with is no intact packed file.
        ValueError: it is a model without packed layers.
    """
    expected = _weights(against)
    names = file.manifest.layers
    for name in [*expected, *(n for n in names if n not in expected)]:
        if name not in names or name not in expected:
            where = "in the file" if name not in names else "in what it is compared with"
            return f"layer {name!r} is not {where}"
        problem = _difference(file.weight(name), expected[name])
        if problem is not None:
            return f"layer {name!r} has other {problem} than what it is compared with"
    return None


def _weights(against: Against) -> dict[str, PackedWeight]:
    """The packed weights by the name of their layer."""
    if not isinstance(against, nn.Module):
        other = PackedFile(against)
        return {name: other.weight(name) for name in other.manifest.layers}
    modules = unwrapped(against).named_modules()
    layers = {plain_name(n): m.packed_weight for n, m in modules if isinstance(m, PackedLayer)}
    if not layers:
        raise ValueError(
            f"certify: no layer of {type(against).__name__} is packed, so there is nothing to "
            "compare with; give a packed model, or the path of a packed file"
        )
    return layers


def _difference(found: PackedWeight, expected: PackedWeight) -> str | None:
    """What differs; a matrix equals the same numbers as a convolution of one pixel."""
    form, other = found.format, expected.format
    if (form.num_rows, form.row_length) != (other.num_rows, other.row_length):
        return "sizes"
    if form.codebook != other.codebook:
        return "levels"
    if not _same_bytes(found.codes, expected.codes):
        return "codes"
    return None if _same_bytes(found.scale, expected.scale) else "scales"


def _same_bytes(found: Tensor, expected: Tensor) -> bool:
    a, b = (x.detach().cpu().contiguous().flatten().view(torch.uint8) for x in (found, expected))
    return torch.equal(a, b)
