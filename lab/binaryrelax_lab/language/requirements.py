"""What language models need installed beside the lab."""

import importlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_QUIET = threading.RLock()


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


def needed_torchao(module: str) -> Any:
    """A module of torchao, which PARQ alone needs.

    Raises:
        LanguageExtraMissing: it is not installed.
    """
    try:
        with quiet_torchao():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise LanguageExtraMissing(
            f"PARQ needs the module {error.name}: pip install --no-deps torchao==0.18.0"
        ) from error


@contextmanager
def quiet_torchao() -> Iterator[None]:
    """Without its warnings inside, and its log of the extensions that it did not find."""
    with _QUIET:  # these switches are those of the whole process
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.disable(before)
