"""The command ``binaryrelax``: parses, calls the library, prints. Each command is a file."""

from binaryrelax.cli.app import run as run
