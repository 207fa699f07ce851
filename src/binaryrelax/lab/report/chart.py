"""A chart as one static SVG: the curves with both phases, and λ below them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from binaryrelax.lab.report.curves import Chart, Curve
from binaryrelax.lab.report.svg import Axis, band, element, label, line, polyline

LEFT, RIGHT_MARGIN = 46, 14
TICK_STEPS = (0.5, 1, 2, 5, 10, 20)
EPOCH_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200)
MOST_DOTS = 40  # epochs; with more of them a line says enough
LONG = 60  # epochs; a longer run may leave its first ones below the chart


@dataclass(frozen=True)
class Layout:
    """Where things are, in pixels of the drawing; without room for λ, that part is left out."""

    width: int
    top: int
    bottom: int
    strength_top: int | None
    strength_bottom: int
    height: int

    @property
    def right(self) -> int:
        """The end of the panels."""
        return self.width - RIGHT_MARGIN


WIDE = Layout(960, 30, 300, 340, 420, 456)
NARROW = Layout(380, 30, 300, 340, 420, 456)
HALF = Layout(440, 26, 196, 228, 276, 312)
SMALL = Layout(440, 22, 132, None, 132, 166)


def chart_svg(chart: Chart, layout: Layout, name: str) -> str:
    """The drawing; a script may find its geometry in the data attributes.

    Args:
        name: of the chart, a word that no other drawing on the page has (for its clip path).
    """
    across = Axis(1, max(chart.num_epochs, 2), LEFT + 12, layout.right - 8)
    parts = [
        _phases(chart, across, layout),
        _accuracy_panel(chart, across, layout, f"{name}-{layout.width}"),
        _strength_panel(chart, across, layout) if layout.strength_top else "",
        _epoch_ticks(chart, across, layout),
        line(0, layout.top, 0, layout.strength_bottom, class_="cursor"),
    ]
    return element(
        "svg",
        *parts,
        class_=f"curves w{layout.width}",
        viewBox=f"0 0 {layout.width} {layout.height}",
        role="img",
        tabindex=0,
        aria_label=f"Test accuracy after each epoch: {', '.join(c.label for c in chart.curves)}",
        data_first=across(1),
        data_last=across(chart.num_epochs),
        data_epochs=chart.num_epochs,
    )


def chart_html(chart: Chart, layouts: Iterable[Layout], index: int) -> str:
    """The chart with a legend that hides curves and a box for the values under the cursor.

    Args:
        layouts: with more than one, the style sheet chooses by the width of the window.
        index: of the chart's data among those of the page.
    """
    legend = [_legend_button(curve, position) for position, curve in enumerate(chart.curves)]
    readout = element("div", class_="readout", role="status", aria_live="polite", hidden="")
    drawings = [chart_svg(chart, layout, f"chart{index}") for layout in layouts]
    return element(
        "div",
        element("div", *legend, class_="legend", aria_label="Methods"),
        element("div", *drawings, readout, class_="drawing"),
        class_="chart",
        data_chart=index,
    )


def swatch(method: str) -> str:
    """A short stroke in the colour of the method."""
    return element("span", class_=f"swatch {method}")


def accuracy_range(chart: Chart) -> tuple[float, float]:
    """Limits that hold all curves but the first epochs of long ones; the lower is a tick."""
    lowest = sorted(value for curve in chart.curves for value in curve.low)
    low = lowest[len(lowest) // 33 if chart.num_epochs > LONG else 0]
    high = min(100.0, math.ceil(max(max(curve.high) for curve in chart.curves) + 0.5))
    low = min(low, high - 1)  # curves that never leave 100 % need some room too
    step = tick_step(high - low)
    return math.floor(low / step) * step, high


def tick_step(span: float) -> float:
    """The smallest round step that makes at most seven ticks."""
    return next((step for step in TICK_STEPS if span / step <= 6), TICK_STEPS[-1])


def _legend_button(curve: Curve, position: int) -> str:
    seeds = f" ({curve.num_seeds} seeds)" if curve.num_seeds > 1 else ""
    return element(
        "button",
        swatch(curve.method),
        escape(curve.label + seeds),
        type="button",
        aria_pressed="true",
        data_curve=position,
    )


def _phases(chart: Chart, across: Axis, layout: Layout) -> str:
    """The two phases as shades, with their names where there is room."""
    border = min(layout.right, max(LEFT, across(chart.phase_two_epoch)))
    parts = []
    for number, start, end, more in (
        (1, LEFT, border, "relaxed"),
        (2, border, layout.right, "hard"),
    ):
        height = layout.strength_bottom - layout.top
        place = {"x": start, "y": layout.top, "width": round(end - start, 1), "height": height}
        parts.append(element("rect", **place, class_=f"phase{number}"))
        name = f"Phase {'I' * number}" + (f": {more}" if end - start > 100 else "")
        if end - start > 50:
            parts.append(label((start + end) / 2, layout.top - 9, name, class_="phase-name"))
    return "".join(parts)


def _accuracy_panel(chart: Chart, across: Axis, layout: Layout, clip: str) -> str:
    low, high = accuracy_range(chart)
    up = Axis(low, high, layout.bottom, layout.top + 6)
    step = tick_step(high - low)
    ticks = [low + step * i for i in range(int((high - low) / step) + 1)]
    parts = [_tick_line(up(tick), f"{tick:g} %", layout) for tick in ticks]
    box = {"x": LEFT, "y": layout.top, "width": layout.right - LEFT}
    inside = element("rect", **box, height=layout.bottom - layout.top)
    parts.append(element("clipPath", inside, id=clip))
    curves = [_curve(curve, position, across, up) for position, curve in enumerate(chart.curves)]
    return "".join(parts) + element("g", *curves, clip_path=f"url(#{clip})")


def _curve(curve: Curve, position: int, across: Axis, up: Axis) -> str:
    points = [(across(i + 1), up(value)) for i, value in enumerate(curve.values)]
    parts = [polyline(points)]
    if curve.num_seeds > 1:
        limits = zip(curve.low, curve.high, strict=True)
        parts.insert(0, band([(across(i + 1), up(a), up(b)) for i, (a, b) in enumerate(limits)]))
    if len(points) <= MOST_DOTS:
        parts += [element("circle", cx=x, cy=y, r=2.6) for x, y in points]
    return element("g", *parts, class_=f"curve {curve.method}", data_curve=position)


def _strength_panel(chart: Chart, across: Axis, layout: Layout) -> str:
    """λ on a logarithmic scale; infinity is above it."""
    if chart.strengths is None:
        return ""
    top, bottom = layout.strength_top, layout.strength_bottom
    powers = [math.log10(max(strength, 1e-3)) for strength in chart.strengths]
    low, high = math.floor(min([0.0, *powers])), max([1.0, *powers])
    up = Axis(low, high, bottom, top + 14)
    ticks = range(low, int(high) + 1)
    parts = [_tick_line(up(power), f"{10.0**power:g}", layout) for power in ticks]
    points = [(across(i + 1), up(power)) for i, power in enumerate(powers)]
    dots = [element("circle", cx=x, cy=y, r=2.6) for x, y in points if len(points) <= MOST_DOTS]
    parts.append(element("g", polyline(points), *dots, class_="curve strength"))
    middle = (across(chart.phase_two_epoch) + layout.right) / 2
    parts.append(label(middle, (top + bottom) / 2 + 8, "λ = ∞", class_="infinite"))
    parts.append(label(LEFT, top - 6, "λ of BinaryRelax, at the end of each epoch"))
    return "".join(parts)


def _epoch_ticks(chart: Chart, across: Axis, layout: Layout) -> str:
    most = layout.width / 68
    every = next((s for s in EPOCH_STEPS if chart.num_epochs / s <= most), EPOCH_STEPS[-1])
    y = layout.strength_bottom + 17
    shown = range(every, chart.num_epochs + 1, every)
    ticks = [label(across(epoch), y, str(epoch), class_="centred") for epoch in shown]
    middle = (LEFT + layout.width) / 2
    return "".join([*ticks, label(middle, layout.height - 4, "epochs trained", class_="centred")])


def _tick_line(y: float, text: str, layout: Layout) -> str:
    return line(LEFT, y, layout.right, y, class_="grid") + label(
        LEFT - 6, y + 4, text, class_="tick"
    )
