"""The file of a packed network: one safetensors file with a manifest, never a pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save
from torch import Tensor, nn

from binaryrelax.packed.bits import pack_bits, pack_trits, unpack_trits
from binaryrelax.packed.conversion import replace_everywhere, unwrapped
from binaryrelax.packed.folding import FoldedNorm
from binaryrelax.packed.layers import PACKED_TYPES, PackedLayer
from binaryrelax.packed.manifest import (
    METADATA_KEY,
    LayerEntry,
    Manifest,
    PackedFileError,
    digest_of_tensors,
)
from binaryrelax.packed.weights import TERNARY, PackedWeight
from binaryrelax.packed.writing import write_atomically

_KIND_OF = {packed: plain.__name__.lower() for plain, packed in PACKED_TYPES.items()}
_TYPE_OF = {kind: packed for packed, kind in _KIND_OF.items()}
_PLAIN_OF = {packed: plain for plain, packed in PACKED_TYPES.items()}


def save_packed(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    dense: bool = True,
    about: Mapping[str, str] | None = None,
) -> None:
    """Writes a packed model: codes, scales, everything else it holds, and a manifest.

    Args:
        model: what ``pack`` or ``load_packed`` has returned.
        path: any name; replaced if it is there, and intact if writing fails.
        dense: store ternary codes five to a byte (1.6 bits each) instead of four (2 bits each).
        about: anything to say about the network, key by key; ``certify`` gives it back.

    Raises:
        ValueError: no layer of the model is packed, or a part of its state is no tensor.
    """
    model = unwrapped(model)
    layers = {name: m for name, m in model.named_modules() if isinstance(m, PackedLayer)}
    if not layers:
        raise ValueError(
            f"save_packed: no layer of {type(model).__name__} is packed; pack(model, weights) first"
        )
    tensors, tied = _without_copies(_state_of(model))
    entries = {}
    for name, layer in layers.items():
        layout = "trits" if dense and layer.format.codebook == TERNARY else "bits"
        codes = stored_codes(layer.packed_weight, layout)
        if f"{name}.codes" in tensors:
            tensors[f"{name}.codes"] = codes
        digest = digest_of_tensors(codes, layer.scale)
        entries[name] = LayerEntry(_KIND_OF[type(layer)], layer.format, layout, digest)
    packed_names = {f"{name}.{part}" for name in entries for part in ("codes", "scale")}
    digests = {n: digest_of_tensors(t) for n, t in tensors.items() if n not in packed_names}
    folded = tuple(name for name, m in model.named_modules() if isinstance(m, FoldedNorm))
    manifest = Manifest(entries, digests, tied, folded, dict(about or {}))
    content = save(tensors, metadata={METADATA_KEY: manifest.to_json()})
    write_atomically(Path(path), content)


def load_packed(path: str | os.PathLike[str], model: nn.Module) -> nn.Module:
    """Puts a packed network into a model, in place.

    Args:
        path: what ``save_packed`` has written.
        model: of the architecture that was packed; its own weights do not matter, and may be on
            the meta device. Packed layers go to the device of the layers that they replace.

    Returns:
        The model, in evaluation mode.

    Raises:
        PackedFileError: the file is not an intact packed network, or one of another architecture.
            The model is as it was.
    """
    file = PackedFile(path)
    model = unwrapped(model)
    tensors = file.other_tensors()
    layers = {name: _loaded_layer(file, name, model, tensors) for name in file.manifest.layers}
    norms = [_named(file, model, name) for name in file.manifest.folded]
    _check_the_rest(file, model, layers, tensors)
    for name, layer in layers.items():
        replace_everywhere(model, model.get_submodule(name), layer)
    for norm in norms:
        replace_everywhere(model, norm, FoldedNorm())
    _fill(model, tensors)
    return model.eval()


class PackedFile:
    """A packed file, opened: its manifest is intact; tensors are checked as they are read.

    Raises:
        PackedFileError: it is no packed file, or its manifest or list of tensors was changed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise PackedFileError(f"{path} is a folder; give the file in it")
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                metadata = file.metadata() or {}
                self._tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError:
            raise
        except Exception as error:  # safetensors has one error type of its own, and others
            reason = str(error).partition("\n")[0]
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
        entry = self.manifest.layers[name]
        codes, scale = self.tensor(f"{name}.codes"), self.tensor(f"{name}.scale")
        if digest_of_tensors(codes, scale) != entry.digest:
            raise self.error(f"layer {name!r} was changed: the digest differs")
        form = entry.format
        if tuple(codes.shape) != entry.stored_codes_shape or codes.dtype != torch.uint8:
            raise self.error(f"layer {name!r}: codes are not {entry.stored_codes_shape} bytes")
        if entry.layout == "trits":
            stored = codes
            codes = pack_bits(unpack_trits(codes, form.row_length), form.bits)
            if not torch.equal(stored_codes(PackedWeight(form, codes, scale), "trits"), stored):
                raise self.error(f"layer {name!r}: a byte is not five trits, or padding not zero")
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
        packed = self._packed_names()
        tied = [name for name in self.manifest.tied if name not in packed]
        return {name: self.tensor(name) for name in [*self.manifest.tensors, *tied]}

    def tensor(self, name: str) -> Tensor:
        """A tensor as it is stored, or the one that it is tied to."""
        tensor: Tensor = self._tensors[self.manifest.tied.get(name, name)]
        return tensor

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
        if not self.manifest.layers:
            raise self.error("holds no packed layer")


def stored_codes(weight: PackedWeight, layout: str) -> Tensor:
    """The codes as a file holds them."""
    if layout == "bits":
        return weight.codes.cpu()
    return pack_trits(weight.indices().flatten(1)).cpu()


def _state_of(model: nn.Module) -> dict[str, Tensor]:
    state = model.state_dict()
    strangers = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if strangers:
        raise ValueError(
            f"save_packed: {strangers[0]!r} in the state of {type(model).__name__} is no tensor; "
            "a packed file holds tensors only"
        )
    return state


def _without_copies(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors to store, and name -> name of the stored one for those that share its memory."""
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    seen: dict[Any, str] = {}
    for name, tensor in state.items():
        memory = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        kept = seen.setdefault(memory, name) if tensor.numel() else name
        if kept == name:
            tensors[name] = tensor.detach().cpu().contiguous()
        else:
            tied[name] = kept
    return tensors, tied


def _loaded_layer(
    file: PackedFile, name: str, model: nn.Module, tensors: dict[str, Tensor]
) -> PackedLayer:
    """The packed layer that takes the place of the model's; its bias leaves ``tensors``."""
    entry, module = file.manifest.layers[name], _named(file, model, name)
    packed_type = _TYPE_OF[entry.kind]
    if not isinstance(module, (packed_type, _PLAIN_OF[packed_type])):
        raise file.error(f"layer {name!r} is {entry.kind} there, {type(module).__name__} here")
    here = _weight_shape(module)
    if here != entry.format.shape:
        raise file.error(f"layer {name!r} has shape {entry.format.shape} there, {here} here")
    weight, bias = file.weight(name), tensors.get(f"{name}.bias")
    if bias is not None and tuple(bias.shape) != here[:1]:
        raise file.error(f"layer {name!r} has a bias of shape {tuple(bias.shape)}")
    layer = packed_type(module, weight, bias)
    device = next(iter([*module.parameters(), *module.buffers()])).device
    return layer if device.type == "meta" else layer.to(device)


def _weight_shape(module: nn.Module) -> tuple[int, ...]:
    if isinstance(module, PackedLayer):
        return module.format.shape
    weight = module.weight
    assert isinstance(weight, Tensor)
    return tuple(weight.shape)


def _check_the_rest(
    file: PackedFile,
    model: nn.Module,
    layers: Mapping[str, PackedLayer],
    tensors: Mapping[str, Tensor],
) -> None:
    """Whether the file's other tensors are those that the model will have, with their shapes."""
    replaced = {model.get_submodule(name) for name in layers}
    replaced |= {model.get_submodule(name) for name in file.manifest.folded}
    skipped = tuple(
        f"{name}." for name, m in model.named_modules(remove_duplicate=False) if m in replaced
    )
    expected = {n: t for n, t in model.state_dict().items() if not n.startswith(skipped)}
    found = {n: t for n, t in tensors.items() if not n.startswith(skipped)}
    different = sorted(expected.keys() ^ found.keys())
    if different:
        where = "not in the file" if different[0] in expected else "not in the model"
        raise file.error(f"is of another architecture: {different[0]!r} is {where}")
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)} there, {tuple(expected[name].shape)} here"
            raise file.error(f"tensor {name!r} has shape {shapes}")


def _fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Writes what is not packed; what is on the meta device is replaced instead."""
    state = model.state_dict()
    rest = {name: tensor for name, tensor in tensors.items() if name in state}
    is_meta = any(state[name].is_meta for name in rest)
    model.load_state_dict(rest, strict=False, assign=is_meta)


def _named(file: PackedFile, model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise file.error(f"is of another architecture: there is no {name!r} here") from None
