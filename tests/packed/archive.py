"""A packed file taken apart and put together again by other code than the library's."""

import hashlib
import json
import math
import struct
from dataclasses import dataclass, field
from typing import Any

KEY = "binaryrelax"
TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip
SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
    "BOOL": 1, "C64": 8,
}  # fmt: skip


@dataclass
class StoredTensor:
    """One tensor of a safetensors file."""

    dtype: str
    shape: list[int]
    content: bytes

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * SIZES[self.dtype]

    def stamp(self) -> bytes:
        """What the digest of the tensor covers."""
        shape = (
            f"({self.shape[0]},)"
            if len(self.shape) == 1
            else f"({', '.join(map(str, self.shape))})"
        )
        return f"torch.{TORCH_NAMES[self.dtype]} {shape};".encode() + self.content


@dataclass
class Archive:
    """The tensors of a packed file and its manifest, to be changed at will."""

    tensors: dict[str, StoredTensor]
    manifest: dict[str, Any]
    metadata: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(content: bytes) -> "Archive":
        header, data = split(content)
        metadata = header.pop("__metadata__")
        tensors = {
            name: StoredTensor(t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in header.items()
        }
        manifest = json.loads(metadata.pop(KEY))
        return Archive(tensors, manifest, metadata)

    def signed(self) -> bytes:
        """The file with digests that are right, as only a forger would write it."""
        self._stamp_layers()
        digests = self.manifest.get("tensors")
        if isinstance(digests, dict):
            for name in digests:
                if name in self.tensors:
                    digests[name] = _digest(self.tensors[name])
        content = {key: value for key, value in self.manifest.items() if key != "digest"}
        text = json.dumps(content, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return self.with_manifest(json.dumps({**content, "digest": digest}, separators=(",", ":")))

    def _stamp_layers(self) -> None:
        layers, tied = self.manifest.get("layers"), self.manifest.get("tied")
        for name, entry in layers.items() if isinstance(layers, dict) else ():
            names = [f"{name}.codes", f"{name}.scale"]
            if isinstance(tied, dict):
                names = [tied.get(n, n) if isinstance(tied.get(n, n), str) else n for n in names]
            if (
                isinstance(entry, dict)
                and "digest" in entry
                and all(n in self.tensors for n in names)
            ):
                entry["digest"] = _digest(*(self.tensors[n] for n in names))

    def with_manifest(self, text: str) -> bytes:
        """The file with this for a manifest."""
        header: dict[str, Any] = {"__metadata__": {**self.metadata, KEY: text}}
        place, contents = 0, []
        # As safetensors orders them: wide dtypes first.
        for name, tensor in sorted(self.tensors.items(), key=lambda t: (-SIZES[t[1].dtype], t[0])):
            end = place + len(tensor.content)
            header[name] = {
                "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [place, end],
            }  # fmt: skip
            contents.append(tensor.content)
            place = end
        return join(header, b"".join(contents))


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and data of a safetensors file."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join(header: dict[str, Any] | str, data: bytes) -> bytes:
    """A safetensors file with this header."""
    text = (
        header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    ).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def _digest(*tensors: StoredTensor) -> str:
    return hashlib.sha256(b"".join(tensor.stamp() for tensor in tensors)).hexdigest()
