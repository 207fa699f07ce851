"""What an export needs installed."""

from __future__ import annotations

import importlib
from types import ModuleType


def needed(module: str, extra: str) -> ModuleType:
    """The module, imported.

    Raises:
        ImportError: it is not installed; one line that names the extra to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"export to {extra} needs the module {error.name}: "
            f"pip install '.[{extra}]' in the source folder"
        ) from error
