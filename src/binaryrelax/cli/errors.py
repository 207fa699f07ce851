"""Errors as one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from binaryrelax.cli.speech import complain
from binaryrelax.lab.stopping import Stopped


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Turns exceptions into one line and exit status 1, unless a traceback is wanted."""
    try:
        yield
    except Stopped as stop:
        raise typer.Exit(stop.exit_status) from None
    except (ValueError, OSError) as error:
        if debug:
            raise
        complain(" ".join(str(error).split()))
        raise typer.Exit(1) from None
    except Exception as error:
        if debug or isinstance(error, typer.Exit | typer.Abort):
            raise
        complain(f"{type(error).__name__}: {error}; --debug shows where".replace("\n", " "))
        raise typer.Exit(1) from None
