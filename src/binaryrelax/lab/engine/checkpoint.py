"""Checkpoints of a run: written atomically, checked by a digest, the last two kept."""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from binaryrelax.lab.engine.files import write_atomically

FOLDER_NAME = "checkpoints"
NUM_KEPT = 2
MAGIC = b"binaryrelax checkpoint 1 "  # then 64 hexadecimal digits, a line end, the content


def save_checkpoint(folder: Path, num_steps: int, content: dict[str, Any]) -> Path:
    """Writes a checkpoint of a run folder and removes all but the last two."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    digest = hashlib.sha256(payload).hexdigest().encode()
    path = folder / FOLDER_NAME / f"step-{num_steps:09d}.ckpt"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, MAGIC + digest + b"\n" + payload)
    for old in checkpoints(folder)[NUM_KEPT:]:
        old.unlink(missing_ok=True)
    return path


def load_newest(folder: Path, note: Callable[[str], None]) -> dict[str, Any] | None:
    """The newest checkpoint that is whole, on the CPU; None if there is none.

    A damaged one is passed over, and `note` is told.
    """
    for path in checkpoints(folder):
        try:
            return _read(path)
        except (OSError, ValueError) as error:
            note(f"{path} cannot be used ({error}); falling back to the one before")
    return None


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files of a run folder, the newest first."""
    return sorted((folder / FOLDER_NAME).glob("step-*.ckpt"), reverse=True)


def forget_checkpoints(folder: Path) -> None:
    """Removes all checkpoints of a run folder, whole or half written."""
    for path in [*checkpoints(folder), *(folder / FOLDER_NAME).glob(".step-*")]:
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    header, _, payload = content.partition(b"\n")
    if not header.startswith(MAGIC):
        raise ValueError("it is not a checkpoint of binaryrelax")
    if hashlib.sha256(payload).hexdigest().encode() != header[len(MAGIC) :]:
        raise ValueError("damaged: the digest is not that of its content")
    return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
