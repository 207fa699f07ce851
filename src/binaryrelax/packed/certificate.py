"""An answer to "are my weights really 1 bit?": what a packed file holds, layer by layer."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from binaryrelax.packed.equality import Against, first_difference
from binaryrelax.packed.file import PackedFile
from binaryrelax.packed.manifest import LayerEntry, PackedFileError
from binaryrelax.packed.packed_weight import PackedWeight


@dataclass(frozen=True)
class LayerCertificate:
    """What one packed layer holds, counted from the file.

    Args:
        name: of the layer.
        kind: "linear", "conv2d", ...
        shape: of its weight.
        codebook: the levels that its codes choose from.
        scales: how many scales it has.
        distinct_values: the most different weights that any group with one scale has.
        zeros: the fraction of its weights that are zero.
        bits_per_weight: in the file, scales counted.
        num_bytes: in the file, codes and scales.
        saving: bytes of the float32 weight over ``num_bytes``.
        digest: SHA-256 of its codes and scales.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Binary, certify, pack, save_packed, select_weights
        >>> model = nn.Sequential(nn.Conv2d(16, 32, 3))
        >>> weights = select_weights(model, Binary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> save_packed(pack(model, weights), "net.safetensors")
        >>> [layer] = certify("net.safetensors").layers
        >>> layer.kind, layer.shape, layer.distinct_values, round(layer.bits_per_weight, 2)
        ('conv2d', (32, 16, 3, 3), 2, 1.01)
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    codebook: tuple[float, ...]
    scales: int
    distinct_values: int
    zeros: float
    bits_per_weight: float
    num_bytes: int
    saving: float
    digest: str


@dataclass(frozen=True)
class Certificate:
    """What ``certify`` has found.

    Args:
        ok: whether every packed layer holds what the file says, and what it was compared with.
        reason: the first layer that does not, and why; None if all do.
        layers: those that hold, up to the first that does not.
        num_packed: packed weights; one that several layers share counts once.
        float_tensors: name -> number of values of what is not packed.
        file_bytes: size of the file.
        float32_bytes: of the float network on disk, in float32: 4 bytes for each weight and each
            float value that is not packed; a tensor that has several names counts once.
        about: what ``save_packed`` was told about the network.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Binary, certify, pack, save_packed, select_weights
        >>> model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 10))
        >>> weights = select_weights(model, Binary(), keep_float=("1",))
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> save_packed(pack(model, weights), "net.safetensors")
        >>> certificate = certify("net.safetensors")
        >>> certificate.ok, certificate.float_tensors
        (True, {'0.bias': 512, '1.weight': 5120, '1.bias': 10})
        >>> round(certificate.packed_share, 3), round(certificate.saving)
        (0.979, 19)
    """

    ok: bool
    reason: str | None
    layers: tuple[LayerCertificate, ...]
    num_packed: int
    float_tensors: dict[str, int]
    file_bytes: int
    float32_bytes: int
    about: dict[str, str]

    @property
    def saving(self) -> float:
        """How many times smaller the file is than the network in float32."""
        return self.float32_bytes / self.file_bytes

    @property
    def packed_share(self) -> float:
        """The fraction of the network's values that are packed weights; the others stay float."""
        return self.num_packed / (self.num_packed + sum(self.float_tensors.values()))


def certify(path: str | os.PathLike[str], against: Against | None = None) -> Certificate:
    """Reads a packed file and counts what its layers hold.

    Args:
        path: of the file, written by ``save_packed`` or ``export_native``. No model is needed, and
            nothing in the file is run.
        against: a packed model, or the path of another packed file. Every packed layer must have
            its levels, codes and scales, bit for bit, and no layer may be missing.

    Raises:
        PackedFileError: it is not a packed file, or its manifest does not fit its tensors, so that
            nothing can be said of its layers; or ``against`` is no intact one.
        ValueError: ``against`` is a model without packed layers.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Ternary, certify, pack, save_packed, select_weights
        >>> model = nn.Sequential(nn.Linear(512, 512))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> save_packed(pack(model, weights), "net.safetensors", about={"task": "an example"})
        >>> certificate = certify("net.safetensors")
        >>> certificate.ok, certificate.about, certificate.layers[0].distinct_values
        (True, {'task': 'an example'}, 3)
        >>> certify("net.safetensors", against=model).ok
        True
    """
    file = PackedFile(path)
    layers, reason = [], None
    for name, entry in file.manifest.layers.items():
        try:
            layers.append(_layer_certificate(name, entry, file.weight(name)))
        except PackedFileError as error:
            reason = str(error)
            break
    others, reason = _others(file, reason)
    if reason is None and against is not None:
        different = first_difference(file, against)
        reason = None if different is None else f"{path}: {different}"
    num_packed = sum(
        entry.format.num_weights
        for name, entry in file.manifest.layers.items()
        if f"{name}.codes" not in file.manifest.tied  # float layers share their weight as well
    )
    float32_bytes = 4 * num_packed + sum(_float32_bytes(file.tensor(name)) for name in others)
    size = Path(path).stat().st_size
    return Certificate(
        ok=reason is None,
        reason=reason,
        layers=tuple(layers),
        num_packed=num_packed,
        float_tensors=others,
        file_bytes=size,
        float32_bytes=float32_bytes,
        about=file.manifest.about,
    )


def _float32_bytes(tensor: torch.Tensor) -> int:
    """What a float network stores for a tensor: counters and the like have their own size."""
    return tensor.numel() * (4 if tensor.is_floating_point() else tensor.element_size())


def _others(file: PackedFile, reason: str | None) -> tuple[dict[str, int], str | None]:
    if reason is None:
        try:
            file.other_tensors()
        except PackedFileError as error:
            reason = str(error)
    return {name: file.tensor(name).numel() for name in file.manifest.tensors}, reason


def _layer_certificate(name: str, entry: LayerEntry, weight: PackedWeight) -> LayerCertificate:
    form = entry.format
    num_bytes = math.prod(entry.stored_codes_shape) + 4 * form.num_scales
    groups = weight.unpack().reshape(form.num_scales, -1)
    return LayerCertificate(
        name=name,
        kind=entry.kind,
        shape=form.shape,
        codebook=form.codebook,
        scales=form.num_scales,
        distinct_values=_most_distinct(groups),
        zeros=float((groups == 0).double().mean()),
        bits_per_weight=8 * num_bytes / form.num_weights,
        num_bytes=num_bytes,
        saving=4 * form.num_weights / num_bytes,
        digest=entry.digest,
    )


def _most_distinct(groups: torch.Tensor) -> int:
    ordered = groups.sort(dim=1).values
    return 1 + int((ordered[:, 1:] != ordered[:, :-1]).sum(dim=1).max())
