"""The files of a run folder: complete or absent, never half written."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from safetensors.torch import save
from torch import Tensor

RESULT_NAME = "result.json"
FINAL_NAME = "final.safetensors"
HISTOGRAMS_NAME = "histograms.json"
UNFINISHED = ".part"  # how the name of a file ends while it is written


def write_atomically(path: Path, content: bytes) -> None:
    """Writes the file under another name first, so that `path` is never seen half written."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}{UNFINISHED}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror or error}); what was there before is "
            "intact: make room, then go on with --resume"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


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
        message = f"{path} is not valid JSON ({error}); delete it and train again"
        raise ValueError(message) from error


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file; the same tensors give the same bytes."""
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(dense))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Lets the new name of a file survive a power cut, as its content does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
