"""What an export needs installed."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingExtra(ImportError):
    """What an export needs is not installed; one line that names the extra to install."""


def needed(module: str, extra: str) -> ModuleType:
    """The module, imported.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"export to {extra} needs the module {error.name}: "
            f"pip install '.[{extra}]' in the source folder"
        ) from error
