"""Lines for a person."""

from rich.console import Console


def say(console: Console, line: str) -> None:
    """Prints the line as it is, whatever the width of the terminal."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def counted(number: int, thing: str) -> str:
    """The number with the word for it: 1 seed, 3 seeds."""
    return f"{number} {thing}" + ("" if number == 1 else "s")
