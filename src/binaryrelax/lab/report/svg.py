"""Small pieces of SVG and HTML, as text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def element(tag: str, *children: str, **attributes: object) -> str:
    """An element; values are escaped, children are taken as they are.

    A trailing underscore is dropped (``class_``), others become hyphens; None leaves one out.
    """
    names = {name: name.removesuffix("_").replace("_", "-") for name in attributes}
    pairs = [f' {names[k]}="{escape(str(v))}"' for k, v in attributes.items() if v is not None]
    return f"<{tag}{''.join(pairs)}>{''.join(children)}</{tag}>"


def label(x: float, y: float, text: str, **attributes: object) -> str:
    """Text at a place."""
    return element("text", escape(text), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def polyline(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    """A line through points."""
    return element("polyline", points=_places(points), fill="none", **attributes)


def band(points: Sequence[tuple[float, float, float]]) -> str:
    """The area between two lines, given as x with both values of y."""
    there = [(x, y) for x, y, _ in points]
    back = [(x, y) for x, _, y in reversed(points)]
    return element("polygon", points=_places([*there, *back]))


def _places(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
