"""Files that are complete or absent, never half written."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

UNFINISHED = ".part"  # how the name of a file ends while it is written
_MAY_NOT_SYNC = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes the file under another name first, so that ``path`` is never seen half written.

    Args:
        path: what to write. A file that is there is replaced and keeps its permissions; a link
            stays, and the file that it leads to is written.
        content: all of it.

    Raises:
        OSError: it cannot be written; what was there before is intact. Or, as the message says, it
            is written and the disk has failed to keep its name.
    """
    try:
        target = _followed(path)
        _replace(target, content)
    except (OSError, ValueError) as error:  # ValueError: no name of a file
        reason = getattr(error, "strerror", None) or error
        raise OSError(
            f"{path} cannot be written ({reason}); what was there before is intact{_way_out(error)}"
        ) from error
    _sync_folder(target)


def _followed(path: Path) -> Path:
    """The plain file that ``path`` is, leads to or will be."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OSError(errno.ELOOP, "it is a link that leads in a circle")
    if target.is_dir():
        raise OSError(errno.EISDIR, "it is a folder")
    if target.exists() and not target.is_file():  # a device would be replaced by a file
        raise OSError(errno.EINVAL, "it is no plain file")
    return target


def _replace(target: Path, content: bytes) -> None:
    # Its name is cut: the longest that a folder takes would be too long with more around it.
    temporary = target.with_name(f".{target.name[:60]}.{token_hex(4)}{UNFINISHED}")
    try:
        with temporary.open("xb") as file:
            _take_over_permissions(file, target)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink()


def _take_over_permissions(file: BinaryIO, replaced: Path) -> None:
    """Owner and mode of the file that is replaced, as far as user and file system let them be."""
    with suppress(FileNotFoundError):
        before = replaced.stat()
        with suppress(OSError, AttributeError):  # Windows has neither
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        with suppress(OSError, AttributeError):
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))


def _sync_folder(path: Path) -> None:
    """Lets the new name of a file survive a power cut, as its content does.

    A folder that may be written and not read cannot be synced; nor can those of some file systems.
    """
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _MAY_NOT_SYNC:
            raise OSError(
                f"{path} is written, but may be gone after a power cut: its folder cannot be "
                f"synced ({error.strerror or error})"
            ) from error


def _way_out(error: Exception) -> str:
    advice = {
        errno.ENOSPC: "make room",
        errno.EDQUOT: "make room",
        errno.EISDIR: "give the name of a file in it",
        errno.ENOENT: "make its folder first",
        errno.ENOTDIR: "its folder is a file: choose another",
    }.get(getattr(error, "errno", None) or 0)
    return f": {advice}" if advice else ""
