"""The animation of the README: a layer's weights slide into Q while λ grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from binaryrelax_lab.report.epoch_chart import Axis
from binaryrelax_lab.report.svg import box, line, moving, picture, strength_text, taking_turns, text
from binaryrelax_lab.report.weight_panels import CODE_NAMES
from binaryrelax_lab.results.weight_paths import Moment, WeightPaths

WIDTH, HEIGHT, SECONDS = 880, 440, 11
BASE, TOP = 318, 96  # of both panels
SHOWN, SHOWN_ALONE = 2.5, 2.0  # scales to either side, in the histogram and of single weights
HELD_FIRST, HELD_LAST = 3, 6  # how often the first and the last moment are shown
ALONG = (40, 840)  # the line of time
WORDS = (
    "Animation: histogram of a layer's relaxed weights x. As λ grows from 0 to infinity they slide "
    "from a bell shape onto the three points −s, 0 and +s."
)


def sliding_animation(paths: WeightPaths) -> bytes:
    """The content of an SVG file that moves by itself."""
    first, last = paths.moments[0], paths.moments[-1]
    moments = (first,) * (HELD_FIRST - 1) + paths.moments + (last,) * (HELD_LAST - 1)
    title = text((40, 40), "As λ grows, the weights slide into Q = {−s, 0, +s}", "ink title")
    parts = [title, *_captions(moments), *_histogram(paths, moments), *_map(moments)]
    return picture(WIDTH, HEIGHT, WORDS, [*parts, *_time(paths, moments)])


def _captions(moments: Sequence[Moment]) -> list[str]:
    """λ and how far x is from Q, moment by moment."""
    captions = []
    for moment in moments:
        phase = "float network" if moment.step == 0 else f"Phase {'I' * moment.phase}"
        is_in_q = moment.phase == 2
        away = "x lies in Q" if is_in_q else f"x is {100 * moment.distance:.1f} % away from Q"
        strength = text((840, 40), strength_text(moment.strength), "ink large", "end")
        captions.append(strength + text((840, 66), f"{phase}: {away}", "quiet", "end"))
    return taking_turns(captions, SECONDS)


def _histogram(paths: WeightPaths, moments: Sequence[Moment]) -> list[str]:
    """The bars of x, and the outline of y."""
    across = Axis(-SHOWN, SHOWN, 40, 540)
    most = max(max(moment.counts_of_x) for moment in moments)
    up = Axis(0, math.sqrt(most / paths.num_weights), BASE, TOP)

    def outline(counts: tuple[int, ...]) -> str:
        width = 2 * paths.edge / len(counts)
        steps = []
        for number, count in enumerate(counts):
            right = min(across(-paths.edge + width * (number + 1)), across.end)
            steps.append(f"V{up(math.sqrt(count / paths.num_weights)):.0f}H{right:.0f}")
        return f"M{across.start:g},{BASE}{''.join(steps)}V{BASE}"

    of_x, of_y = ([outline(getattr(m, f"counts_of_{n}")) for m in moments] for n in "xy")
    return [
        text((40, 66), "x, what the network computes with", "quiet"),
        f'<path class="x" d="{of_x[-1]}">{moving("d", of_x, SECONDS)}</path>',
        f'<path class="y" d="{of_y[-1]}">{moving("d", of_y, SECONDS)}</path>',
        text((across.end, 130), "line: y, what the", "quiet", "end"),
        text((across.end, 150), "optimizer moves", "quiet", "end"),
        line("rule", [(across.start, BASE), (across.end, BASE)]),
        *(text((across(c), BASE + 20), name, "ink", "middle") for c, name in CODE_NAMES.items()),
    ]


def _map(moments: Sequence[Moment]) -> list[str]:
    """Some weights one by one, x over y: a diagonal that becomes a staircase."""
    across, up = (
        Axis(-SHOWN_ALONE, SHOWN_ALONE, 618, 840),
        Axis(-SHOWN_ALONE, SHOWN_ALONE, BASE, TOP),
    )
    parts = [text((across.end, BASE + 20), "x over y", "quiet", "end")]
    for code, name in CODE_NAMES.items():
        parts.append(line("rule", [(across.start, up(code)), (across.end, up(code))]))
        parts.append(text((across.start - 8, up(code) + 5), name, "ink", "end"))
    for number in range(len(moments[0].y)):
        places = [
            [f"{axis(min(max(way[number], -SHOWN_ALONE), SHOWN_ALONE)):.0f}" for way in ways]
            for axis, ways in ((across, [m.y for m in moments]), (up, [m.x for m in moments]))
        ]
        (xs, ys), names = places, ("cx", "cy")
        inside = "".join(moving(n, v, SECONDS) for n, v in zip(names, (xs, ys), strict=True))
        parts.append(f'<circle class="x" r="2.5" cx="{xs[-1]}" cy="{ys[-1]}">{inside}</circle>')
    return parts


def _time(paths: WeightPaths, moments: Sequence[Moment]) -> list[str]:
    """How far training is, with the phases."""
    along, top, bottom = Axis(0, paths.num_steps, *ALONG), 372, 420
    border, middle = along(paths.border), (top + bottom) / 2 + 5
    places = [f"{along(moment.step):.0f}" for moment in moments]
    return [
        box("shade", (border, top), (along.end, bottom)),
        line("rule", [(along.start, bottom), (along.end, bottom)]),
        text((along.start, middle), "Phase I: λ grows"),
        text((border + 12, middle), "Phase II: λ = ∞"),
        f'<circle class="mark" r="6" cy="{bottom}" cx="{places[-1]}">'
        f"{moving('cx', places, SECONDS)}</circle>",
    ]
