"""The commands that the lab adds to ``binaryrelax``: each a file that parses, calls and prints.

Progress, speech and signals live here too: nothing below this folder prints or names a flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binaryrelax.cli.plugins import Plugins

# Each is the function of that name in the file of that name; pyproject.toml names them again.
COMMANDS = ("demo", "recipes", "train", "campaign", "report", "pack", "bench", "theory", "study")


def plugins() -> Plugins:
    """What an installation would register, without one."""
    from importlib.metadata import EntryPoint

    from binaryrelax.cli import plugins

    commands = [
        EntryPoint(name, f"{__name__}.{name}:{name}", plugins.COMMANDS) for name in COMMANDS
    ]
    known = f"{__name__}.known_networks:known_network"
    networks = EntryPoint("lab", known, plugins.NETWORKS)
    return plugins.Plugins((*commands, networks))
