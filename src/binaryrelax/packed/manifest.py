"""What a packed file says about itself: strict JSON in the metadata of a safetensors file."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import torch

from binaryrelax.packed.bits import MAX_BITS, trit_bytes_per_row
from binaryrelax.packed.packed_weight import PACKABLE, TERNARY, WeightFormat
from binaryrelax.quantizers import Granularity
from binaryrelax.quantizers.kinds import granularity_from_plain

METADATA_KEY = "binaryrelax"
VERSION = 3  # 1 knew no embeddings, 2 no programs
DIMENSIONS = {  # of the weights of each kind
    "linear": 2, "embedding": 2, "conv1d": 3, "conv2d": 4, "conv3d": 5,
    "conv_transpose1d": 3, "conv_transpose2d": 4, "conv_transpose3d": 5,
}  # fmt: skip
LAYOUTS = ("bits", "trits")
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in PACKABLE}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST = 2**40  # weights of a layer; more is a forged shape
_LARGEST_LEVEL = torch.finfo(torch.float32).max


class PackedFileError(ValueError):
    """A file that is not a packed network, or not an intact one.

    Examples:
        >>> from pathlib import Path
        >>> from binaryrelax import PackedFileError, certify
        >>> _ = Path("notes.txt").write_text("no network")
        >>> try:  # doctest: +ELLIPSIS
        ...     certify("notes.txt")
        ... except PackedFileError as error:
        ...     print(error)
        notes.txt: is no intact safetensors file (...)
    """


@dataclass(frozen=True)
class LayerEntry:
    """One packed layer of a file.

    Args:
        kind: of the layer, a key of ``DIMENSIONS``.
        format: of its weight.
        layout: of its codes: "bits", or "trits" for five ternary codes per byte.
        digest: of its codes and scales.
    """

    kind: str
    format: WeightFormat
    layout: str
    digest: str

    @property
    def stored_codes_shape(self) -> tuple[int, int]:
        """Shape of the codes in the file."""
        if self.layout == "trits":
            return self.format.num_rows, trit_bytes_per_row(self.format.row_length)
        return self.format.codes_shape


@dataclass(frozen=True)
class Manifest:
    """All that a packed file says about itself.

    Args:
        layers: the packed layers by name; their tensors are ``NAME.codes`` and ``NAME.scale``.
        tensors: digests of all other tensors, by name.
        tied: name of a tensor that is not stored -> name of the stored one that it equals.
        folded: batch normalizations that packed layers do.
        about: what the writer wanted to say, key by key.
        program: what to do with the tensors, of a file that the native runtime runs; plain JSON.
    """

    layers: dict[str, LayerEntry]
    tensors: dict[str, str]
    tied: dict[str, str]
    folded: tuple[str, ...]
    about: dict[str, str]
    program: dict[str, Any] | None = None

    def to_json(self) -> str:
        """The manifest as one line, with its own digest."""
        content = {
            "version": self._version,
            "layers": {name: _layer_to_json(entry) for name, entry in self.layers.items()},
            "tensors": self.tensors,
            "tied": self.tied,
            "folded": list(self.folded),
            "about": self.about,
        }
        if self.program is not None:
            content["program"] = self.program
        return _canonical({**content, "digest": _digest(_canonical(content))})

    @property
    def _version(self) -> int:
        """What the oldest reader that can read it knows."""
        if self.program is not None:
            return VERSION
        is_old = all(entry.kind != "embedding" for entry in self.layers.values())
        return 1 if is_old else 2

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The manifest that ``to_json`` has written.

        Raises:
            PackedFileError: it is not one, or was changed.
        """
        content = _parsed(text)
        version = content.get("version")
        if type(version) is not int or not 1 <= version < 2**31:
            raise PackedFileError("its manifest has no version")
        if version > VERSION:
            raise PackedFileError(
                f"it has version {version}, this binaryrelax reads up to {VERSION}: update it"
            )
        digest = content.pop("digest", None)
        try:
            is_intact = digest == _digest(_canonical(content))
            manifest = _manifest(content) if is_intact else None
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
            raise PackedFileError(f"its manifest is malformed: {_one_line(error)}") from None
        if manifest is None:
            raise PackedFileError("its manifest was changed: the digest differs")
        return manifest


def _manifest(content: dict[str, Any]) -> Manifest:
    layers = {name: _layer_from_json(name, entry) for name, entry in content["layers"].items()}
    digests, tied, folded = content["tensors"], content["tied"], content["folded"]
    about, program = content["about"], content.get("program")
    for name, digest in digests.items():
        _require(_is_digest(digest), f"the digest of {name!r} is none")
    for name, kept in tied.items():
        _require(isinstance(kept, str), f"{name!r} is tied to nothing")
    _require(isinstance(folded, list) and all(isinstance(n, str) for n in folded), "folded names")
    _require(all(isinstance(text, str) for text in about.values()), "about holds other than text")
    _require(("program" in content) == (content["version"] == VERSION), "a program and version 3")
    _require(isinstance(program, dict) or "program" not in content, "the program is none")
    return Manifest(layers, digests, tied, tuple(folded), about, program)


def _layer_to_json(entry: LayerEntry) -> dict[str, Any]:
    form = entry.format
    return {
        "kind": entry.kind,
        "shape": list(form.shape),
        "codebook": [int(c) if c.is_integer() else c for c in form.codebook],
        "granularity": _granularity_to_json(form.granularity),
        "dtype": str(form.dtype).removeprefix("torch."),
        "layout": entry.layout,
        "digest": entry.digest,
    }


def _layer_from_json(name: str, entry: dict[str, Any]) -> LayerEntry:
    where = f"layer {name!r}"
    shape, codebook = entry["shape"], entry["codebook"]
    _require(entry["kind"] in DIMENSIONS, f"{where} has the unknown kind {entry['kind']!r}")
    _require(entry["layout"] in LAYOUTS, f"{where} has the unknown layout {entry['layout']!r}")
    _require(_is_digest(entry["digest"]), f"{where} has no digest")
    _require(
        len(shape) == DIMENSIONS[entry["kind"]]
        and all(type(n) is int and 0 < n <= _LARGEST for n in shape),
        f"{where} has the shape {shape}",
    )
    _require(math.prod(shape) <= _LARGEST, f"{where} has the shape {shape}, which is too large")
    _require(_is_codebook(codebook), f"{where} has no increasing codebook")
    levels = tuple(float(level) for level in codebook)
    _require(entry["layout"] == "bits" or levels == TERNARY, f"{where} is not ternary, but trits")
    granularity = granularity_from_plain(entry["granularity"])
    form = WeightFormat(tuple(shape), levels, granularity, _DTYPES[entry["dtype"]])
    _require(form.num_scales > 0, f"{where} has no scale")  # also: the groups divide the rows
    return LayerEntry(entry["kind"], form, entry["layout"], entry["digest"])


def _granularity_to_json(granularity: Granularity) -> str | int:
    said = granularity.to_plain()
    if said is None or granularity_from_plain(said) != granularity:  # it could not be read back
        raise ValueError(f"a packed file cannot say {granularity!r}")
    return said


def _is_codebook(levels: Any) -> bool:
    if not isinstance(levels, list) or not 2 <= len(levels) <= 2**MAX_BITS:
        return False
    if not all(type(level) in (int, float) and abs(level) <= _LARGEST_LEVEL for level in levels):
        return False
    return all(low < high for low, high in pairwise(levels))


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _parsed(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise PackedFileError(f"its manifest is no JSON: {_one_line(error)}") from None
    if not isinstance(content, dict):
        raise PackedFileError("its manifest is no JSON object")
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _canonical(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _one_line(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]


def digest_of_tensors(*tensors: torch.Tensor) -> str:
    """SHA-256 over dtype, shape and bytes of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
