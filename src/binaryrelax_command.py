"""The command ``binaryrelax`` until it is loaded; outside the package, whose import loads torch."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from binaryrelax.cli.plugins import Plugins

NEEDED = ("typer", "rich")


def main(find_plugins: Callable[[], Plugins] | None = None) -> None:
    """Runs the command, or says what has to be installed for it.

    Args:
        find_plugins: gives what to offer beside the library's commands, if not what is installed.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"binaryrelax: the command needs {', '.join(missing)}; "
            "install the extra: pip install '.[cli]' in the source folder\n"
        )
        raise SystemExit(1)
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, _end_at_once)
    from binaryrelax.cli import run  # a second or two, and only now: it imports what may be missing

    plugins = find_plugins() if find_plugins else None
    raise SystemExit(run(plugins, when_loaded=lambda: signal.signal(signal.SIGINT, before)))


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """For the time of the imports, which may swallow a KeyboardInterrupt or make it ImportError."""
    sys.stderr.write("binaryrelax: interrupted\n")
    os._exit(128 + number)
