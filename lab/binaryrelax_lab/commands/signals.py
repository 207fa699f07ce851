"""Signals as a wish that long work can ask for."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer


class StopWish:
    """Whether SIGINT or SIGTERM has come, and which."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self) -> bool:
        return self.number is not None

    @property
    def exit_status(self) -> int:
        """What a shell expects of a process that a signal has ended."""
        return 128 + (self.number or signal.SIGINT)


class Stopped(typer.Exit):
    """Work has ended early because a signal asked for it; all has been said and saved."""

    def __init__(self, wish: StopWish) -> None:
        super().__init__(wish.exit_status)


@contextmanager
def stop_wishes() -> Iterator[StopWish]:
    """Inside, the first signal is only noted, so that work can end well; a second interrupts."""
    wish = StopWish()

    def note(number: int, frame: FrameType | None) -> None:
        if wish():
            raise KeyboardInterrupt
        wish.number = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
