"""Writing a packed network: one safetensors file with a manifest, never a pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from binaryrelax.packed.atomic_writing import write_atomically
from binaryrelax.packed.bits import pack_trits
from binaryrelax.packed.folding import FoldedNorm
from binaryrelax.packed.manifest import (
    METADATA_KEY,
    LayerEntry,
    Manifest,
    digest_of_tensors,
)
from binaryrelax.packed.packed_layer import PackedLayer
from binaryrelax.packed.packed_weight import TERNARY, PackedWeight
from binaryrelax.quantizers.quantizable_layers import plain_name, unwrapped
from binaryrelax.quantizers.sharded_weights import is_dtensor

# The dtypes that safetensors writes and reads.
_NAMES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 "
    "uint64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2"
)
STORABLE = {getattr(torch, name) for name in _NAMES.split() if hasattr(torch, name)}


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
        ValueError: no layer of the model is packed, or a part of its state, which is named, is
            nothing that the file can hold.
        OSError: the file cannot be written.

    Examples:
        >>> import os
        >>> from torch import nn
        >>> from binaryrelax import Ternary, pack, save_packed, select_weights
        >>> model = nn.Sequential(nn.Linear(1024, 1024))
        >>> weights = select_weights(model, Ternary())
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> save_packed(pack(model, weights), "net.safetensors", about={"task": "an example"})
        >>> os.path.getsize("net.safetensors") < 220_000  # over 4 MB in float32
        True
    """
    model = unwrapped(model)
    layers = {plain_name(n): m for n, m in model.named_modules() if isinstance(m, PackedLayer)}
    if not layers:
        raise ValueError(
            f"save_packed: no layer of {type(model).__name__} is packed; pack(model, weights) first"
        )
    about = dict(about or {})
    if not all(isinstance(text, str) for pair in about.items() for text in pair):
        raise ValueError(f"save_packed(about={about!r}): keys and values must be text")
    tensors, tied = _without_copies(_state_of(model))
    entries = {}
    for name, layer in layers.items():
        entries[name], codes = described_layer(layer.KIND, layer.packed_weight, dense=dense)
        if f"{name}.codes" in tensors:
            tensors[f"{name}.codes"] = codes
    packed_names = {f"{name}.{part}" for name in entries for part in ("codes", "scale")}
    digests = {n: digest_of_tensors(t) for n, t in tensors.items() if n not in packed_names}
    folded = tuple(plain_name(n) for n, m in model.named_modules() if isinstance(m, FoldedNorm))
    manifest = Manifest(entries, digests, tied, folded, about)
    content = save(tensors, metadata={METADATA_KEY: manifest.to_json()})
    write_atomically(Path(path), content)


def described_layer(
    kind: str, weight: PackedWeight, *, dense: bool = True
) -> tuple[LayerEntry, Tensor]:
    """What the manifest says of a packed layer, and its codes as a file holds them."""
    is_dense = dense and weight.format.codebook == TERNARY
    codes = pack_trits(weight.indices().flatten(1)) if is_dense else weight.codes
    digest = digest_of_tensors(codes, weight.scale)
    layout = "trits" if is_dense else "bits"
    return LayerEntry(kind, weight.format, layout, digest), codes.cpu()


def _state_of(model: nn.Module) -> dict[str, Tensor]:
    state = {plain_name(name): value for name, value in model.state_dict(keep_vars=True).items()}
    for name, value in state.items():
        problem = _obstacle(value)
        if problem is not None:
            raise ValueError(
                f"save_packed: {name!r} in the state of {type(model).__name__} {problem}"
            )
    return state


def _obstacle(value: Any) -> str | None:
    """Why a packed file cannot hold a part of a model's state, and what to do; None if it can."""
    if not isinstance(value, Tensor):
        return "is no tensor; a packed file holds tensors only"
    if isinstance(value, (UninitializedParameter, UninitializedBuffer)):
        return "has no values yet: run one batch through the model first"
    if value.is_meta:
        return "is on the meta device, without values; load a checkpoint into the model first"
    if is_dtensor(value):
        return "is sharded; load its full state dict into a model of one process"
    elsewhere = "or keep it out of the state with register_buffer(..., persistent=False)"
    if value.is_nested or value.layout is not torch.strided:
        kind = "nested" if value.is_nested else str(value.layout)
        return f"is {kind}; a packed file holds dense tensors: use to_dense(), {elsewhere}"
    if is_traceable_wrapper_subclass(value):
        return f"is a {type(value).__name__}, which is no plain tensor: convert it, {elsewhere}"
    if value.dtype not in STORABLE:
        way_out = "use dequantize()" if value.is_quantized else "convert it"
        way_out = "use to(torch.complex64)" if value.is_complex() else way_out
        return f"is {value.dtype}, which a packed file cannot hold: {way_out}, {elsewhere}"
    return None


def _without_copies(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors to store, and name -> name of the stored one for those that share its memory."""
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    seen: dict[Any, str] = {}
    storages: set[int] = set()
    for name, tensor in state.items():
        kept = seen.setdefault(_identity(tensor), name) if tensor.numel() else name
        if kept == name:
            dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            memory = dense.untyped_storage().data_ptr()  # safetensors wants that of others nowhere
            tensors[name] = dense.clone() if memory in storages else dense
            storages.add(memory)
        else:
            tied[name] = kept
    return tensors, tied


def _identity(tensor: Tensor) -> Any:
    """What two tensors agree in only if they hold the same values in the same memory."""
    layout = tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg()
    return tensor.data_ptr(), tensor.device, layout
