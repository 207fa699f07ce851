"""What commands say: results on a console, complaints on stderr."""

import sys

from rich.console import Console


def say(console: Console, line: str) -> None:
    """Prints the line as it is, whatever the width of the terminal."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """Says in one line what went wrong."""
    sys.stderr.write(f"binaryrelax: {visible(message)}\n")


def visible(text: str) -> str:
    """Words of a file with control characters escaped, which a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
