"""The validation curves with both phases, and λ below them, as one static SVG."""

import math

from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.svg import Axis, element, label, line, polyline

TOP, BOTTOM = 30, 300  # of the accuracy panel
STRENGTH_TOP, STRENGTH_BOTTOM = 340, 420  # of the panel of λ
HEIGHT = 456
LEFT, RIGHT_MARGIN = 46, 14
TICK_STEPS = (0.5, 1, 2, 5, 10, 20)


def curves_svg(runs: list[FinishedRun], width: int) -> str:
    """The chart, `width` pixels wide; a script may find its geometry in the data attributes."""
    num_epochs = max(len(run.accuracies) for run in runs)
    across = Axis(1, max(num_epochs, 2), LEFT + 12, width - RIGHT_MARGIN - 8)
    parts = [
        _phases(runs, across, width),
        _accuracy_panel(runs, across, width),
        _strength_panel(runs, across, width),
        _epoch_ticks(across, num_epochs, width),
        line(0, TOP, 0, STRENGTH_BOTTOM, class_="cursor"),
    ]
    return element(
        "svg",
        *parts,
        class_=f"curves w{width}",
        viewBox=f"0 0 {width} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label="Test accuracy after each epoch for every method, with lambda below",
        data_first=across(1),
        data_last=across(num_epochs),
        data_epochs=num_epochs,
    )


def accuracy_range(runs: list[FinishedRun]) -> tuple[float, float]:
    """Limits that hold all curves; the lower one is a tick."""
    values = [accuracy for run in runs for accuracy in run.accuracies]
    low, high = min(values), min(100.0, math.ceil(max(values) + 0.5))
    step = tick_step(high - low)
    return math.floor(low / step) * step, high


def tick_step(span: float) -> float:
    """The smallest round step that makes at most seven ticks."""
    return next((step for step in TICK_STEPS if span / step <= 6), TICK_STEPS[-1])


def phase_two_start(runs: list[FinishedRun]) -> int:
    """After how many epochs Phase II begins."""
    return next(r.result["recipe"]["phase_two_epoch"] for r in runs)


def _phases(runs: list[FinishedRun], across: Axis, width: int) -> str:
    """The two phases as shades, with their names where there is room."""
    right = width - RIGHT_MARGIN
    border = min(right, max(LEFT, across(phase_two_start(runs))))
    parts = []
    for number, start, end, more in ((1, LEFT, border, "relaxed"), (2, border, right, "hard")):
        place = {"x": start, "y": TOP, "width": end - start, "height": STRENGTH_BOTTOM - TOP}
        parts.append(element("rect", **place, class_=f"phase{number}"))
        name = f"Phase {'I' * number}" + (f": {more}" if end - start > 100 else "")
        if end - start > 50:
            parts.append(label((start + end) / 2, TOP - 9, name, class_="phase-name"))
    return "".join(parts)


def _accuracy_panel(runs: list[FinishedRun], across: Axis, width: int) -> str:
    low, high = accuracy_range(runs)
    up = Axis(low, high, BOTTOM, TOP + 6)
    step = tick_step(up.high - up.low)
    ticks = [low + step * i for i in range(int((up.high - low) / step) + 1)]
    parts = [_tick_line(up(tick), f"{tick:g} %", width) for tick in ticks]
    for run in runs:
        points = [(across(i + 1), up(value)) for i, value in enumerate(run.accuracies)]
        dots = [element("circle", cx=x, cy=y, r=2.6) for x, y in points]
        parts.append(element("g", polyline(points), *dots, class_=f"curve {run.method}"))
    return "".join(parts)


def _strength_panel(runs: list[FinishedRun], across: Axis, width: int) -> str:
    """λ on a logarithmic scale; infinity is above it."""
    relaxed = next((run for run in runs if run.is_relaxed), None)
    if relaxed is None:
        return ""
    records = [r for r in relaxed.result["epochs"] if r["strength"] != "inf"]
    strengths = [record["strength"] for record in records]
    top = max([10.0, *strengths])
    up = Axis(0, math.log10(top), STRENGTH_BOTTOM, STRENGTH_TOP + 14)
    parts = [
        _tick_line(up(power), f"{10**power}", width) for power in range(int(math.log10(top)) + 1)
    ]
    points = [(across(r["epoch"] + 1), up(math.log10(max(r["strength"], 1)))) for r in records]
    dots = [element("circle", cx=x, cy=y, r=2.6) for x, y in points]
    parts.append(element("g", polyline(points), *dots, class_="curve strength"))
    middle = (across(phase_two_start(runs)) + width - RIGHT_MARGIN) / 2
    height = (STRENGTH_TOP + STRENGTH_BOTTOM) / 2 + 8
    parts.append(label(middle, height, "λ = ∞", class_="infinite"))
    parts.append(label(LEFT, STRENGTH_TOP - 6, "λ of BinaryRelax, at the end of each epoch"))
    return "".join(parts)


def _epoch_ticks(across: Axis, num_epochs: int, width: int) -> str:
    every = max(1, math.ceil(num_epochs / 12))
    shown = range(every, num_epochs + 1, every)
    ticks = [
        label(across(epoch), STRENGTH_BOTTOM + 17, str(epoch), class_="centred") for epoch in shown
    ]
    middle = (LEFT + width) / 2
    return "".join([*ticks, label(middle, HEIGHT - 4, "epochs trained", class_="centred")])


def _tick_line(y: float, text: str, width: int) -> str:
    return line(LEFT, y, width - RIGHT_MARGIN, y, class_="grid") + label(
        LEFT - 6, y + 4, text, class_="tick"
    )
