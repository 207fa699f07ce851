"""Files from the internet: complete and checked, or not there at all."""

import hashlib
import os
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

TIMEOUT = 60  # seconds without a byte
BLOCK = 1 << 20


def check_digest(content: bytes, expected: str) -> None:
    """Refuses content whose digest is not `expected`, such as ``md5:0123…``."""
    algorithm = expected.partition(":")[0]
    found = f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"
    if found != expected:
        raise ValueError(f"{len(content):,} bytes with {found} instead of {expected}")


def download(address: str, target: Path, expected: str) -> None:
    """Fetches a file into `target`, which appears only once its digest has been found right.

    Args:
        expected: the digest with its algorithm, such as ``md5:0123…``.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            found = _fetch(address, file, expected.partition(":")[0])
        if found != expected:
            raise ValueError(
                f"{address} sent something else than the official file ({found} instead of "
                f"{expected}); try again later, or get it from elsewhere"
            )
        os.replace(temporary, target)
    except (OSError, HTTPException) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{address} cannot be downloaded into {target.parent} ({reason}); try again, or get "
            "it by other means"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _fetch(address: str, file: BinaryIO, algorithm: str) -> str:
    """Writes what the address sends into the file and returns its digest."""
    hashed = hashlib.new(algorithm, usedforsecurity=False)
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
        while block := answer.read(BLOCK):
            hashed.update(block)
            file.write(block)
    return f"{algorithm}:{hashed.hexdigest()}"
