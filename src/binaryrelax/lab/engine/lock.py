"""One process at a time in a run folder."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from binaryrelax.lab.engine.ranks import Ranks

try:
    import fcntl
except ImportError:  # Windows has other locks; there, it is up to the user
    fcntl = None

LOCK_NAME = ".lock"
MOST_TRIES = 1000


@contextmanager
def sole_use(folders: Iterable[Path], ranks: Ranks) -> Iterator[None]:
    """Inside, no other process gets these folders; processes that train together share them.

    The locks are the kernel's, which opens them when the process ends, however it does. Nothing is
    left behind: neither their files nor folders in which nothing was written.

    Raises:
        ValueError: another process has one of them.
    """
    with ExitStack() as held:

        def take() -> None:
            if ranks.is_first and fcntl is not None:
                for folder in folders:
                    held.enter_context(_locked(folder))

        ranks.in_turn(take)  # all of them hear that the first one must not
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    path = folder / LOCK_NAME
    with _open_locked(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # something was written into it
                for empty in made:
                    empty.rmdir()


def _open_locked(path: Path) -> IO[bytes]:
    """The file, locked; others may remove it and its folder, at their end, at any moment."""
    for _ in range(MOST_TRIES):
        with suppress(FileNotFoundError, FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("wb")
            try:
                _lock(file, path.parent)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            except BaseException:
                file.close()
                raise
            file.close()
    raise ValueError(f"{path} cannot be written; give another --out")


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"{folder} is in use: another process trains there; wait for its end, or give "
            "another --out"
        ) from None
    except OSError:  # a disk that knows no locks: up to the user, too
        pass
