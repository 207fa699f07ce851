"""The kinds that have a public name: a new one joins settings and files by having it."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from binaryrelax.quantizers.granularity import Granularity
from binaryrelax.quantizers.quantizer import Quantizer


def public_quantizers() -> dict[str, type[Quantizer]]:
    """The quantizers that can be made, by name."""
    return _public(Quantizer)


def public_granularities() -> dict[str, type[Granularity]]:
    """The granularities that can be made, by name."""
    return _public(Granularity)


def granularity_from_plain(value: object) -> Granularity:
    """The granularity whose ``to_plain`` gives the value.

    Raises:
        ValueError: no kind has one.
    """
    for kind in public_granularities().values():
        found = kind.from_plain(value)
        if found is not None:
            return found
    raise ValueError(f"no granularity is called {value!r}")


@cache
def _public(base: type) -> dict[str, Any]:
    from binaryrelax import quantizers  # here, where the package has all of its names

    classes = {name: kind for name, kind in vars(quantizers).items() if inspect.isclass(kind)}
    return {
        name: kind
        for name, kind in sorted(classes.items())
        if issubclass(kind, base) and not inspect.isabstract(kind)
    }
