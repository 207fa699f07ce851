"""A packed file, opened: its manifest, and tensors that are checked as they are read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from binaryrelax.packed.bits import pack_bits, pack_trits, unpack_trits
from binaryrelax.packed.manifest import (
    METADATA_KEY,
    LayerEntry,
    Manifest,
    PackedFileError,
    digest_of_tensors,
)
from binaryrelax.packed.packed_weight import PackedWeight


class PackedFile:
    """A packed file, opened: its manifest is intact; tensors are checked as they are read.

    Raises:
        PackedFileError: it is no packed file, or its manifest or list of tensors was changed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._weights: dict[tuple[str, str, LayerEntry], PackedWeight] = {}
        if self.path.is_dir():
            raise PackedFileError(f"{path} is a folder; give the file in it")
        if self.path.exists() and not self.path.is_file():  # a pipe would be waited for
            raise self.error("is no plain file")
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                metadata = file.metadata() or {}
                self._tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError:
            raise
        except Exception as error:  # safetensors has one error type of its own, and others
            reason = str(error).partition("\n")[0][:200]
            raise self.error(f"is no intact safetensors file ({reason})") from None
        if METADATA_KEY not in metadata:
            raise self.error("is no packed network: it has no manifest; make one with save_packed")
        try:
            self.manifest = Manifest.from_json(metadata[METADATA_KEY])
        except PackedFileError as error:
            raise self.error(str(error)) from None
        self._check_names()

    def weight(self, name: str) -> PackedWeight:
        """The weight of a packed layer.

        Raises:
            PackedFileError: it is not what the manifest says.
        """
        entry = replace(self.manifest.layers[name], kind="")  # an embedding's may be a Linear's too
        key = self._stored_name(f"{name}.codes"), self._stored_name(f"{name}.scale"), entry
        if key not in self._weights:  # layers that share a weight get the same tensors
            self._weights[key] = self._read_weight(name)
        return self._weights[key]

    def _read_weight(self, name: str) -> PackedWeight:
        entry = self.manifest.layers[name]
        codes, scale = self.tensor(f"{name}.codes"), self.tensor(f"{name}.scale")
        if digest_of_tensors(codes, scale) != entry.digest:
            raise self.error(f"layer {name!r} was changed: the digest differs")
        form = entry.format
        if tuple(codes.shape) != entry.stored_codes_shape or codes.dtype != torch.uint8:
            raise self.error(f"layer {name!r}: codes are not {entry.stored_codes_shape} bytes")
        if entry.layout == "trits":
            indices = unpack_trits(codes, form.row_length)
            if not torch.equal(pack_trits(indices), codes):
                raise self.error(f"layer {name!r}: a byte is not five trits, or padding not zero")
            weight = PackedWeight(form, pack_bits(indices, form.bits), scale)
            problem = weight.problem_of_scale()  # the codes are good by their making
        else:
            weight = PackedWeight(form, codes, scale)
            problem = weight.problem()
        if problem:
            raise self.error(f"layer {name!r}: {problem}")
        return weight

    def other_tensors(self) -> dict[str, Tensor]:
        """What is not packed: biases, normalizations, float layers, buffers, by name.

        Raises:
            PackedFileError: one is not what the manifest says.
        """
        for name, digest in self.manifest.tensors.items():
            if digest_of_tensors(self._tensors[name]) != digest:
                raise self.error(f"tensor {name!r} was changed: the digest differs")
        return {name: self.tensor(name) for name in self.names - self._packed_names()}

    @property
    def names(self) -> set[str]:
        """Of all tensors, stored or tied."""
        return {*self._packed_names(), *self.manifest.tensors, *self.manifest.tied}

    def tensor(self, name: str) -> Tensor:
        """A tensor as it is stored, or the one that it is tied to."""
        tensor: Tensor = self._tensors[self._stored_name(name)]
        return tensor

    def _stored_name(self, name: str) -> str:
        return self.manifest.tied.get(name, name)

    def error(self, problem: str) -> PackedFileError:
        """An error that names the file."""
        return PackedFileError(f"{self.path}: {problem}")

    def _packed_names(self) -> set[str]:
        return {f"{name}.{part}" for name in self.manifest.layers for part in ("codes", "scale")}

    def _check_names(self) -> None:
        """Every tensor is stored once or tied, and the manifest knows all."""
        tied = self.manifest.tied
        expected = (self._packed_names() | set(self.manifest.tensors)) - set(tied)
        if expected != set(self._tensors) or not set(tied.values()) <= expected:
            different = sorted(expected ^ set(self._tensors))[:3]
            raise self.error(f"holds other tensors than its manifest says: {different}")
        if set(self.manifest.tensors) & (self._packed_names() | set(tied)):
            raise self.error("has a tensor in two places of its manifest")
        if not self.manifest.layers:
            raise self.error("holds no packed layer")
