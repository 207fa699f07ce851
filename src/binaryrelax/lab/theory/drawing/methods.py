"""The methods that are compared: their colours, and their records."""

from collections.abc import Iterable

from binaryrelax.lab.drawing import COLOURS

METHOD_COLOURS = {
    "projected gradient": "#b4235a",
    "BinaryConnect": COLOURS["bwn"],
    "BinaryRelax": COLOURS["binary"],
    "float minimiser, projected": COLOURS["float"],
}


def colour_of(method: str) -> str:
    """The colour of a method, whatever its schedule."""
    return next(c for name, c in METHOD_COLOURS.items() if method.startswith(name))


def by_method(records: Iterable[dict]) -> dict[str, list[dict]]:
    """The records of each method, in the order they come."""
    groups: dict[str, list[dict]] = {}
    for record in records:
        groups.setdefault(record["method"], []).append(record)
    return groups
