"""Pictures as SVG: for what moves. They bring their background, so every page can show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
.card{fill:#fff;stroke:#d5d9de}.ink{fill:#1f2933}.quiet{fill:#5b6470}.shade{fill:#f1f0ea}
.rule{stroke:#d5d9de;fill:none}.x{fill:#c2410c}.y{stroke:#5b6470;fill:none;stroke-width:1.5}
.path{fill:none;opacity:.55}.strength{stroke:#1d4ed8;fill:none;stroke-width:2.5}
.minus{stroke:#1d4ed8}.zero{stroke:#6b7280}.plus{stroke:#c2410c}.mark{fill:#1d4ed8}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:15px}
.title{font-size:19px;font-weight:600}.large{font-size:22px;font-weight:600}
@media(prefers-color-scheme:dark){
.card{fill:#16181d;stroke:#363c45}.ink{fill:#e8eaed}.quiet{fill:#a7b0bb}.shade{fill:#23272f}
.rule{stroke:#3a414b}.x{fill:#fb923c}.y{stroke:#a7b0bb}.strength{stroke:#7aa7ff}
.minus{stroke:#7aa7ff}.zero{stroke:#8b94a0}.plus{stroke:#fb923c}.mark{fill:#7aa7ff}}
"""
Point = tuple[float, float]


def picture(width: int, height: int, words: str, parts: Iterable[str]) -> bytes:
    """A file: the same parts give the same bytes.

    Args:
        words: what it shows, for those who do not see it.
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{escape(words)}</title>'
        f"<style>{STYLE}</style>"
    )
    card = f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="12"/>'
    return "\n".join([head, card, *parts, "</svg>\n"]).encode()


def text(place: Point, words: str, kind: str = "quiet", anchor: str = "start") -> str:
    """Words at a place; `anchor` is start, middle or end."""
    x, y = place
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def box(kind: str, corner: Point, opposite: Point) -> str:
    """A rectangle from the upper left corner to the lower right one."""
    (left, top), (right, bottom) = corner, opposite
    size = f'width="{right - left:.4g}" height="{bottom - top:.4g}"'
    return f'<rect class="{kind}" x="{left:.4g}" y="{top:.4g}" {size}/>'


def line(kind: str, points: Iterable[Point]) -> str:
    """A line through the points."""
    through = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
    return f'<polyline class="{kind}" points="{through}"/>'


def moving(attribute: str, values: Sequence[str], seconds: float) -> str:
    """What belongs into an element whose attribute goes through the values, over and over."""
    return (
        f'<animate attributeName="{attribute}" dur="{seconds:g}s" repeatCount="indefinite" '
        f'values="{";".join(values)}"/>'
    )


def taking_turns(elements: Sequence[str], seconds: float) -> list[str]:
    """Of the elements one at a time; the last, where nothing moves."""
    count, groups = len(elements), []
    for number, element in enumerate(elements):
        start, end = ((number + shift) / (count - 1) for shift in (-0.5, 0.5))
        times = [(0.0, 0), (start, 1), (end, 0)]
        if number == 0:
            times = [(0.0, 1), (end, 0)]
        elif number == count - 1:
            times = times[:2]
        keys, values = (";".join(f"{t[i]:.4g}" for t in times) for i in (0, 1))
        animate = (
            f'<animate attributeName="opacity" calcMode="discrete" dur="{seconds:g}s" '
            f'repeatCount="indefinite" keyTimes="{keys}" values="{values}"/>'
        )
        opacity = int(number == count - 1)
        groups.append(f'<g opacity="{opacity}">{element}{animate}</g>')
    return groups


def strength_text(strength: float) -> str:
    """λ in three digits."""
    return "λ = ∞" if math.isinf(strength) else f"λ = {strength:.3g}"
