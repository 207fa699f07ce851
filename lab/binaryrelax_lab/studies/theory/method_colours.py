"""The methods that are compared, and the colour of each in all figures."""

from binaryrelax_lab.report.drawing import COLOURS

METHOD_COLOURS = {
    "projected gradient": "#b4235a",
    "BinaryConnect": COLOURS["bwn"],
    "BinaryRelax": COLOURS["binary"],
    "float minimiser, projected": COLOURS["float"],
}


def colour_of(method: str) -> str:
    """The colour of a method, whatever its schedule."""
    return next(c for name, c in METHOD_COLOURS.items() if method.startswith(name))
