"""Questions that a training run does not answer: theory/, bench/, those of docs/evidence.

A study measures and returns plain data. What it has to say while it works goes to a `Say`.
"""

from collections.abc import Callable

Say = Callable[[str], None]  # takes a line of progress


def silence(line: str) -> None:
    """The `Say` of who does not want to know."""
