"""The command ``binaryrelax`` until it is loaded; outside the package, whose import loads torch."""

import os
import signal
import sys
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

NEEDED = ("typer", "rich", "matplotlib", "PIL")


def main() -> None:
    """Runs the command, or says what has to be installed for it."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"binaryrelax: the command needs {', '.join(missing)}; "
            "install the extra: pip install '.[lab]' in the source folder\n"
        )
        raise SystemExit(1)
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, _end_at_once)
    from binaryrelax.cli import run  # a second or two, and only now: it imports what may be missing

    signal.signal(signal.SIGINT, before)
    raise SystemExit(run())


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """For the time of the imports, which may swallow a KeyboardInterrupt or make it ImportError."""
    sys.stderr.write("binaryrelax: interrupted\n")
    os._exit(128 + number)
