"""The picture of the phases: λ over training, and what it does to the weights."""

from __future__ import annotations

import math

from binaryrelax_lab.report.epoch_chart import Axis
from binaryrelax_lab.report.svg import box, line, picture, text
from binaryrelax_lab.report.weight_panels import CODE_NAMES
from binaryrelax_lab.results.weight_paths import WeightPaths

WIDTH, HEIGHT = 880, 560
LEFT, RIGHT = 70, 850
KINDS = {-1: "minus", 0: "zero", 1: "plus"}  # of the code at the end
LOWEST, HIGHEST = -1.7, 2.2  # weights that are shown, in scales
WORDS = (
    "λ grows geometrically through Phase I and is infinite in Phase II. Single weights slide onto "
    "the points −s, 0 and +s of Q, and the distance of the layer to Q falls to 0."
)


def phase_picture(paths: WeightPaths) -> bytes:
    """The content of an SVG file."""
    along = Axis(0, paths.num_steps, LEFT, RIGHT)
    border = along(paths.border)
    parts = [
        box("shade", (border, 20), (RIGHT, 512)),
        text((LEFT, 46), "Phase I: λ grows, x slides towards Q", "ink title"),
        text((border + 10, 46), "Phase II", "ink title"),
        *_strength(paths, along),
        *_weights(paths, along),
        *_distance(paths, along),
    ]
    for epoch in range(0, paths.num_steps // paths.steps_per_epoch + 1, 2):
        place = along(epoch * paths.steps_per_epoch)
        parts.append(text((place, 532), str(epoch), "quiet", "middle"))
    parts.append(text(((LEFT + RIGHT) / 2, 550), "epochs", "quiet", "middle"))
    return picture(WIDTH, HEIGHT, WORDS, parts)


def _strength(paths: WeightPaths, along: Axis) -> list[str]:
    """λ on a logarithmic scale; above it, infinity."""
    up = Axis(0, 2.5, 150, 72)
    points = [(along(m.step), up(math.log10(m.strength))) for m in paths.phase_one]
    infinity = up.end
    parts = [text((LEFT, 72), "λ, logarithmic", "quiet")]
    for value in (1, 10, 100):
        height = up(math.log10(value))
        parts.append(line("rule", [(LEFT, height), (along(paths.border), height)]))
        parts.append(text((LEFT - 10, height + 5), str(value), "quiet", "end"))
    parts.append(line("strength", points))
    parts.append(line("strength", [(along(paths.border), infinity), (RIGHT, infinity)]))
    return [*parts, text((RIGHT - 6, infinity + 22), "λ = ∞, x in Q", "ink", "end")]


def _weights(paths: WeightPaths, along: Axis) -> list[str]:
    """x of some weights, coloured by where they end."""
    up = Axis(LOWEST, HIGHEST, 394, 196)
    count = len(paths.moments[0].x)
    parts = [text((LEFT, 186), f"x of {count} weights, in units of the scale s", "quiet")]
    for code, name in CODE_NAMES.items():
        parts.append(line("rule", [(LEFT, up(code)), (RIGHT, up(code))]))
        parts.append(text((LEFT - 10, up(code) + 5), name, "ink", "end"))
    for number, code in enumerate(paths.moments[-1].codes):
        heights = (up(min(max(m.x[number], LOWEST), HIGHEST)) for m in paths.moments)
        points = zip((along(m.step) for m in paths.moments), heights, strict=True)
        parts.append(line(f"path {KINDS[code]}", points))
    return parts


def _distance(paths: WeightPaths, along: Axis) -> list[str]:
    """How far x is from Q."""
    most = max(moment.distance for moment in paths.moments)
    up = Axis(0, most, 505, 436)
    points = [(along(m.step), up(m.distance)) for m in paths.moments]
    return [
        text((LEFT, 424), "distance of x to Q, relative to the length of x", "quiet"),
        line("rule", [(LEFT, up.start), (RIGHT, up.start)]),
        text((LEFT - 10, up.start + 5), "0", "quiet", "end"),
        text((LEFT - 10, up.end + 5), f"{100 * most:.0f} %", "quiet", "end"),
        line("strength", points),
    ]
