"""Reads the pickles of CIFAR's python layout without running anything that they ask for.

A pickle may name any function of the interpreter and have it called. These files need no more than
dictionaries, lists, strings, numbers and one numpy array, so every name that they may use is
replaced by a record that only remembers what it was given; the array is made afterwards.
"""

import io
import pickle
from typing import Any

import numpy as np


class _ArrayRecord:
    """Stands for numpy's function that makes an empty array, to be filled by the state."""

    __slots__ = ("state",)

    def __init__(self, *arguments: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def described(self) -> tuple[Any, "_TypeRecord", bool, Any]:
        """Shape, type, whether the order is Fortran's, and content."""
        state: Any = self.state
        _, shape, kind, is_transposed, content = state
        return shape, kind, is_transposed, content


class _TypeRecord:
    """Stands for `numpy.dtype`."""

    __slots__ = ("name",)

    def __init__(self, name: str | bytes, *arguments: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        """Byte order and the like, which a type of one byte does not need."""


class _LatinBytes:
    """Stands for `codecs.encode`, with which newer pickles write their bytes."""

    def __new__(cls, text: str, encoding: str) -> bytes:  # type: ignore[misc]
        if encoding not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError(f"it encodes text as {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it changes a function")


ADMITTED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _ArrayRecord,
    ("numpy._core.multiarray", "_reconstruct"): _ArrayRecord,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _TypeRecord,
    ("_codecs", "encode"): _LatinBytes,
}


class _CifarUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which CIFAR does not need")
        return ADMITTED[module, name]


def unpickle_batch(content: bytes) -> dict[bytes, Any]:
    """The dictionary in a python batch, with its pixels under ``b"data"`` as bytes (count, 3072).

    Raises a `ValueError` with one line if there is anything else in the content.
    """
    try:
        batch = _CifarUnpickler(io.BytesIO(content), encoding="bytes").load()
        pixels = _array(batch[b"data"])
    except Exception as error:  # damaged pickles raise all kinds
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"not a pickle of CIFAR images: {reason}") from error
    return batch | {b"data": pixels}


def _array(record: _ArrayRecord) -> np.ndarray:
    """The array that the record describes; its bytes must be as many as its shape says."""
    shape, kind, is_transposed, content = record.described()
    if kind.name not in ("u1", b"u1"):
        raise ValueError(f"its pixels are of type {kind.name!r}, not bytes")
    pixels = np.frombuffer(content, np.uint8)
    return pixels.reshape(shape, order="F") if is_transposed else pixels.reshape(shape)
