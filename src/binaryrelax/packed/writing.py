"""Files that are complete or absent, never half written."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

UNFINISHED = ".part"  # how the name of a file ends while it is written


def write_atomically(path: Path, content: bytes) -> None:
    """Writes the file under another name first, so that ``path`` is never seen half written.

    Args:
        path: what to write; replaced if it is there.
        content: all of it.

    Raises:
        OSError: it cannot be written; what was there before is intact.
    """
    # Its name is cut: the longest that a folder takes would be too long with more around it.
    temporary = path.with_name(f".{path.name[:60]}.{token_hex(4)}{UNFINISHED}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise OSError(
            f"{path} cannot be written ({error.strerror or error}); what was there before is intact"
            f"{': make room' if is_full else ''}"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Lets the new name of a file survive a power cut, as its content does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
