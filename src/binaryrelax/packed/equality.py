"""Whether a file holds the very layers of a packed model, or of another file."""

from __future__ import annotations

import os
from dataclasses import dataclass

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
    found, expected = _Layers.of_file(file), _Layers.of(against)
    for name in dict.fromkeys([*expected.weights, *found.weights]):
        weight, other = found.find(name, expected), expected.find(name, found)
        if weight is None or other is None:
            where = "in the file" if weight is None else "in what it is compared with"
            return f"layer {name!r} is not {where}"
        problem = _difference(weight, other)
        if problem is not None:
            return f"layer {name!r} has other {problem} than what it is compared with"
    return None


@dataclass(frozen=True)
class _Layers:
    """The packed weights by the name of their layer, and layers that have another's tensors.

    A matrix that a program uses for vectors and for maps of one pixel is two layers of its file.
    """

    weights: dict[str, PackedWeight]
    owners: dict[str, str]

    @staticmethod
    def of(against: Against) -> _Layers:
        if not isinstance(against, nn.Module):
            return _Layers.of_file(PackedFile(against))
        modules = unwrapped(against).named_modules()
        layers = {plain_name(n): m.packed_weight for n, m in modules if isinstance(m, PackedLayer)}
        if not layers:
            raise ValueError(
                f"certify: no layer of {type(against).__name__} is packed, so there is nothing to "
                "compare with; give a packed model, or the path of a packed file"
            )
        return _Layers(layers, {})

    @staticmethod
    def of_file(file: PackedFile) -> _Layers:
        weights = {name: file.weight(name) for name in file.manifest.layers}
        owners = {
            name.removesuffix(".codes"): owner.removesuffix(".codes")
            for name, owner in file.manifest.tied.items()
            if name.endswith(".codes") and owner.endswith(".codes")
        }
        return _Layers(weights, owners)

    def find(self, name: str, other: _Layers) -> PackedWeight | None:
        """The layer's weight; that of its owner, where only the other side gives it two names."""
        return self.weights.get(name) or self.weights.get(other.owners.get(name, name))


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
