"""Errors as one line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from binaryrelax.cli.console import complain
from binaryrelax.export.requirements import MissingExtra

if TYPE_CHECKING:
    from binaryrelax.cli.plugins import Plugins


@dataclass(frozen=True)
class Invocation:
    """What each command finds in ``context.obj``.

    Args:
        debug: an error shows where it happened.
        plugins: what other distributions have added.
    """

    debug: bool
    plugins: Plugins


class UsageError(ValueError):
    """Arguments that no file and no luck could make work."""


@contextmanager
def usage_errors(prefix: str = "") -> Iterator[None]:
    """What is wrong inside is wrong with the arguments; `prefix` makes it name the option."""
    try:
        yield
    except ValueError as error:
        raise UsageError(
            str(error) if isinstance(error, UsageError) else f"{prefix}{error}"
        ) from error


@contextmanager
def one_line_errors(context: typer.Context, debug: bool) -> Iterator[None]:
    """Turns exceptions into one line and exit status 1 or 2, unless a traceback is wanted.

    Args:
        context: of the command, which may have been asked for tracebacks before its name.
        debug: whether it was asked for them after.
    """
    debug = debug or context.obj.debug
    try:
        yield
    except KeyboardInterrupt:  # typer would end without a word
        complain("interrupted")
        raise typer.Exit(128 + signal.SIGINT) from None
    except (ValueError, OSError, MissingExtra) as error:
        if debug:
            raise
        complain(" ".join(str(error).split()))
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
    except Exception as error:
        if debug or isinstance(error, typer.Exit | typer.Abort):
            raise
        complain(f"{type(error).__name__}: {error}; --debug shows where".replace("\n", " "))
        raise typer.Exit(1) from None
