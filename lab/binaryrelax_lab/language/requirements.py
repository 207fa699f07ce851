"""What language models need installed beside the lab."""

import importlib
from typing import Any


class LanguageExtraMissing(ValueError):
    """A library of language models is not installed; one line that says how to get it."""


def needed(module: str) -> Any:
    """The module, imported.

    Raises:
        LanguageExtraMissing: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise LanguageExtraMissing(
            f"language models need the module {error.name}: "
            "pip install './lab[language]' in the source folder"
        ) from error
