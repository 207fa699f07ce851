"""The files of a run folder: complete or absent, never half written."""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from binaryrelax.packed.atomic_writing import UNFINISHED, write_atomically as write_atomically

RESULT_NAME = "result.json"
FINAL_NAME = "final.safetensors"
HISTOGRAMS_NAME = "histograms.json"
CHECKPOINTS_NAME = "checkpoints"


def remove_unfinished(folder: Path) -> None:
    """Removes what a process that was killed while it wrote has left behind."""
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Writes strict JSON: NaN and Infinity are refused."""
    text = json.dumps(content, indent=1, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path) -> Any:
    """The content of a JSON file; a `ValueError` that names the file if it is not one."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        message = f"{path} is not valid JSON ({error}); delete it and make it again"
        raise ValueError(message) from error


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file; the same tensors give the same bytes."""
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(dense))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
