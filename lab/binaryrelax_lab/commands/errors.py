"""Errors of the lab as one line that ends with the way out on the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from binaryrelax.cli.errors import one_line_errors
from binaryrelax_lab.data import CannotDownload, CifarNotFound, ImagesNotFound
from binaryrelax_lab.demo import NotOfADemo
from binaryrelax_lab.engine import FolderInUse, HoldsOtherRun, HoldsRun, LostNetwork, UnfitStart
from binaryrelax_lab.language.texts import CorpusNotFound

WAYS_OUT: dict[type[Exception], str] = {
    CannotDownload: "give its folder with --data DIR; --download cannot fetch it",
    CifarNotFound: "give its folder with --data DIR, or fetch it with --download",
    ImagesNotFound: "give its folder with --data DIR",
    CorpusNotFound: "give its folder with --data DIR, or none for the text that comes along",
    FolderInUse: "wait for its end, or give another --out",
    HoldsOtherRun: "ask for the same, give another --out, or remove that folder to begin anew",
    HoldsRun: "--resume goes on with it, --overwrite begins anew",
    LostNetwork: "bring it back, or begin anew (--overwrite, or remove that folder)",
    NotOfADemo: "give another --out",
    UnfitStart: "give a safetensors file with --init, or a state dict of torch",
}
# Of commands that only read a run, and have no --overwrite.
OF_READERS: dict[type[Exception], str] = {LostNetwork: "bring it back, or train it again"}
FOR_CALIBRATION: dict[type[Exception], str] = dict.fromkeys(
    (CannotDownload, CifarNotFound, ImagesNotFound),
    "give its folder, or an .npy file, with --calibration",
)


@contextmanager
def lab_errors(
    context: typer.Context, debug: bool, other: Mapping[type[Exception], str] = WAYS_OUT
) -> Iterator[None]:
    """Like `one_line_errors`; what the lab refuses comes with the option that helps."""
    with one_line_errors(context, debug), ways_out(other):
        yield


@contextmanager
def ways_out(other: Mapping[type[Exception], str] = WAYS_OUT) -> Iterator[None]:
    """Adds the way out to errors that have one.

    Args:
        other: those of a command that has other options.
    """
    try:
        yield
    except tuple(WAYS_OUT) as error:
        kind = next(kind for kind in type(error).__mro__ if kind in WAYS_OUT)
        raise ValueError(f"{error}; {other.get(kind, WAYS_OUT[kind])}") from error


def prepare_folder(out: Path) -> None:
    """Makes the folder; an error that says why if nothing can be written into it."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; give the name of a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()  # has no name, where the system can do without
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"--out {out} cannot be written to ({reason}); give another folder"
        ) from error
