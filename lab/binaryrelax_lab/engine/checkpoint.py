"""Checkpoints of a run: written atomically, checked by a digest, the last two kept."""

import hashlib
import io
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from binaryrelax_lab.files import CHECKPOINTS_NAME, remove_unfinished, write_atomically

NUM_KEPT = 2
MAGIC = b"binaryrelax checkpoint 1 "  # then 64 hexadecimal digits, a line end, the content


def save_checkpoint(folder: Path, num_steps: int, content: dict[str, Any]) -> Path:
    """Writes a checkpoint of a run folder and keeps the one before, nothing else.

    Checkpoints of later steps are those that a resumed run has passed over as damaged.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    digest = hashlib.sha256(payload).hexdigest().encode()
    path = folder / CHECKPOINTS_NAME / f"step-{num_steps:09d}.ckpt"
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path.parent)
    write_atomically(path, MAGIC + digest + b"\n" + payload)
    up_to_this = [other for other in checkpoints(folder) if other.name <= path.name]
    for other in set(checkpoints(folder)) - set(up_to_this[:NUM_KEPT]):
        other.unlink(missing_ok=True)
    return path


def load_newest(folder: Path, note: Callable[[str], None]) -> dict[str, Any] | None:
    """The newest checkpoint that is whole, on the CPU; None if there is none.

    A damaged one is passed over, and `note` is told.
    """
    found = checkpoints(folder)
    for path, earlier in zip_longest(found, found[1:]):
        try:
            return _read(path)
        except (OSError, ValueError) as error:
            then = f"falling back to {earlier.name}" if earlier else "starting afresh"
            note(f"{path} cannot be used ({error}); {then}")
    return None


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files of a run folder, the newest first."""
    return sorted((folder / CHECKPOINTS_NAME).glob("step-*.ckpt"), reverse=True)


def forget_checkpoints(folder: Path) -> None:
    """Removes all checkpoints of a run folder, whole or half written."""
    remove_unfinished(folder / CHECKPOINTS_NAME)
    for path in checkpoints(folder):
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    header, _, payload = content.partition(b"\n")
    if not header.startswith(MAGIC):
        raise ValueError("it is not a checkpoint of binaryrelax")
    if hashlib.sha256(payload).hexdigest().encode() != header[len(MAGIC) :]:
        raise ValueError("damaged: the digest is not that of its content")
    try:
        saved = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception:  # torch and pickle raise many kinds, with pages of advice
        saved = None
    if not isinstance(saved, dict):
        raise ValueError("it holds something else than tensors and plain data")
    return saved
