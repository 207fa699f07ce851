"""What other distributions add to the command: commands, and networks that they can build.

Both are entry points. One of the group ``binaryrelax.commands`` is a function for typer, named like
its command. One of the group ``binaryrelax.networks`` takes a path, that of a packed file or of
anything else, and gives a `KnownNetwork`, or None if it knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import typer
import typer.main
from torch import Tensor, nn

from binaryrelax.cli.console import complain

COMMANDS, NETWORKS = "binaryrelax.commands", "binaryrelax.networks"


@dataclass(frozen=True)
class KnownNetwork:
    """A packed network whose architecture somebody knows.

    Args:
        model: ready to be called.
        example: an input that exporters can follow through it.
        accuracy: loads test images from a folder, or downloads them; what it gives tries the
            network on them, and says the percentage and how many they are.
        training_images: loads so many training images from a folder, as the network takes them.
        about: what its file says of it, for files made of this one.
    """

    model: nn.Module
    example: Tensor
    accuracy: Callable[[Path | None, bool], Callable[[], tuple[float, int]]]
    training_images: Callable[[Path, int], Tensor] | None = None
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plugins:
    """Entry points of both groups."""

    entries: tuple[EntryPoint, ...]

    @staticmethod
    def installed() -> Plugins:
        """Those of all distributions in this environment."""
        found = (entry_points(group=group) for group in (COMMANDS, NETWORKS))
        return Plugins(tuple(entry for group in found for entry in group))

    def has_command(self, name: str) -> bool:
        """Whether somebody offers it, loadable or not."""
        return any(entry.group == COMMANDS and entry.name == name for entry in self.entries)

    def commands(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Name and function of each that works."""
        return ((entry.name, function) for entry, function in self._working(COMMANDS, _as_command))

    def find_network(self, path: Path) -> KnownNetwork | None:
        """What the first that knows something of this path makes of it.

        Raises:
            ValueError, OSError: nobody does, and this is what the first of them said.
        """
        refusal: Exception | None = None
        for entry, known_network in self._working(NETWORKS, _as_function):
            try:
                found = known_network(path)
                if isinstance(found, KnownNetwork):
                    return found
                if found is not None:
                    raise TypeError(f"it gave a {type(found).__name__}, not a KnownNetwork")
            except (ValueError, OSError) as error:  # it knows the path, and what is wrong with it
                refusal = refusal or error
            except Exception as error:
                _complain_of(entry, error)
        if refusal is not None:
            raise refusal
        return None

    def _working(
        self, group: str, checked: Callable[[EntryPoint], Callable[..., Any]]
    ) -> Iterator[tuple[EntryPoint, Callable[..., Any]]]:
        """A broken one is named in a line, and does not take the others down."""
        for entry in self.entries:
            if entry.group == group:
                try:
                    function = checked(entry)
                except (Exception, SystemExit) as error:  # a stranger's module may raise anything
                    _complain_of(entry, error)
                else:
                    yield entry, function


def _as_function(entry: EntryPoint) -> Callable[..., Any]:
    function = entry.load()
    if not callable(function):
        raise TypeError(f"{entry.value} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def _as_command(entry: EntryPoint) -> Callable[..., Any]:
    """A function from which typer can make a command: it looks at the arguments when asked to."""
    function = _as_function(entry)
    trial = typer.Typer()
    trial.command(entry.name)(function)
    typer.main.get_command(trial)
    return function


def _complain_of(entry: EntryPoint, error: BaseException) -> None:
    owner = entry.dist.name if entry.dist else entry.module
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    complain(f"{owner} cannot provide {entry.name!r} ({reason}); repair or remove it")
