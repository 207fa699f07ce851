"""Lines for a person."""

from rich.console import Console


def say(console: Console, line: str) -> None:
    """Prints the line as it is, whatever the width of the terminal."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
