"""Texts before they are tokens: files of a folder, or the embedded novels."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from binaryrelax_lab.language.novels import embedded_text

TRAIN, VALIDATION = "train", "val"
PIECE_CHARACTERS = 1 << 14
_READ_AS = "texts are read from train.txt, val.txt and, to test with them too, any other .txt"


class CorpusNotFound(ValueError):
    """The texts are not where they were looked for; it says what the folder must hold."""


@dataclass(frozen=True)
class RawText:
    """A text in UTF-8 that is read bit by bit.

    Args:
        name: "train", "val" or what another file is called.
        place: where it is, for errors.
        open: gives its bytes from the beginning.
    """

    name: str
    place: str
    open: Callable[[], BinaryIO]

    def digest(self) -> str:
        """The SHA-256 of its bytes, in hexadecimal."""
        with self.open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

    def pieces(self) -> Iterator[str]:
        """All of it, unchanged, in pieces that end where lines do, unless a line is very long.

        Raises:
            ValueError: it is not UTF-8.
        """
        with TextIOWrapper(self.open(), "utf-8", newline="") as file:
            try:
                yield from joined(iter(lambda: file.readline(PIECE_CHARACTERS), ""))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self.place} is not UTF-8 (it has a byte {error.object[error.start]:#04x}, "
                    f"{error.reason}); convert it to UTF-8 first"
                ) from error


def joined(lines: Iterable[str]) -> Iterator[str]:
    """Lines put together into pieces of some length."""
    held: list[str] = []
    length = 0
    for line in lines:
        held.append(line)
        length += len(line)
        if length >= PIECE_CHARACTERS:
            yield "".join(held)
            held, length = [], 0
    if held:
        yield "".join(held)


def embedded_texts() -> list[RawText]:
    """The novels that come with the package."""

    def novel(name: str) -> RawText:
        return RawText(name, f"the embedded {name}.txt", lambda: BytesIO(embedded_text(name)))

    return [novel(TRAIN), novel(VALIDATION)]


def texts_in(folder: Path) -> list[RawText]:
    """The texts of a folder: to train on, to validate with, and others by name.

    Empty if it has neither of the first two.

    Raises:
        CorpusNotFound: it has one of them, or it is no folder.
    """
    if not folder.is_dir():
        raise CorpusNotFound(f"{folder} is not a folder; {_READ_AS}")
    paths = {path.stem: path for path in sorted(folder.glob("*.txt")) if path.is_file()}
    missing = [f"{name}.txt" for name in (TRAIN, VALIDATION) if name not in paths]
    if len(missing) == 1:
        raise no_texts(folder, missing[0])
    if missing:
        return []
    return [RawText(name, str(paths[name]), _opener(paths[name])) for name in in_order(paths)]


def _opener(path: Path) -> Callable[[], BinaryIO]:
    return lambda: path.open("rb")


def in_order(names: Iterable[str]) -> list[str]:
    """Names of texts: what one trains on, what one validates with, and others."""
    return [TRAIN, VALIDATION, *sorted(set(names) - {TRAIN, VALIDATION})]


def no_texts(folder: Path, missing: str) -> CorpusNotFound:
    """The error that a file is missing."""
    return CorpusNotFound(f"{folder}: there is no {missing} in it; {_READ_AS} (UTF-8)")
