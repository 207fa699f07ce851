"""Errors as one line."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from binaryrelax.cli.speech import complain
from binaryrelax.lab.stopping import Stopped


class UsageError(ValueError):
    """Arguments that no file and no luck could make work."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """What is wrong inside is wrong with the arguments."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Turns exceptions into one line and exit status 1 or 2, unless a traceback is wanted."""
    try:
        yield
    except Stopped as stop:
        raise typer.Exit(stop.exit_status) from None
    except KeyboardInterrupt:  # typer would end without a word
        complain("interrupted")
        raise typer.Exit(128 + signal.SIGINT) from None
    except (ValueError, OSError) as error:
        if debug:
            raise
        complain(" ".join(str(error).split()))
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
    except Exception as error:
        if debug or isinstance(error, typer.Exit | typer.Abort):
            raise
        complain(f"{type(error).__name__}: {error}; --debug shows where".replace("\n", " "))
        raise typer.Exit(1) from None
