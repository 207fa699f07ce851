"""One weight histogram as a static SVG; the page's script redraws its shape for other epochs."""

import math
from typing import Any

from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.svg import Axis, element, label, line

WIDTH, HEIGHT = 240, 176
LEFT, RIGHT, TOP, BOTTOM = 3, 237, 22, 146


def tallest_share(runs: list[FinishedRun]) -> float:
    """The largest part of a layer's weights that ever shared a bin: the top of the scale."""
    return max(
        max(snapshot["counts"]) / run.histograms["num_weights"]
        for run in runs
        for snapshot in run.histograms["snapshots"]
    )


def histogram_svg(run: FinishedRun, position: int, tallest: float) -> str:
    """The histogram of a run's snapshot, with that of its float beginning as an outline.

    Heights are square roots of shares, so that 2 % and 50 % both show; the script of the page finds
    its geometry in the data attributes.
    """
    histograms = run.histograms
    snapshots = histograms["snapshots"]
    up = Axis(0, math.sqrt(tallest), BOTTOM, TOP)
    parts = [
        line(LEFT, BOTTOM, RIGHT, BOTTOM, class_="base"),
        element("path", d=_shape(histograms, snapshots[0], up), class_="beginning"),
        element("path", d=_shape(histograms, snapshots[position], up), class_="weights"),
        *[_code_mark(histograms, snapshots[position], code, up) for code in histograms["codebook"]],
    ]
    return element(
        "svg",
        *parts,
        class_=f"histogram {run.method}",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"Weights of {histograms['layer']}, {run.label}",
        data_left=LEFT,
        data_right=RIGHT,
        data_top=TOP,
        data_bottom=BOTTOM,
        data_tallest=tallest,
    )


def caption(snapshot: dict[str, Any]) -> str:
    """When the snapshot was taken, in words."""
    if snapshot["epoch"] is None:
        return "before: the float network"
    strength = snapshot["strength"]
    shown = "∞" if strength == "inf" else f"{strength:.3g}"
    return f"after epoch {snapshot['epoch'] + 1}: Phase {'I' * snapshot['phase']}, λ = {shown}"


def _across(histograms: dict[str, Any]) -> Axis:
    edge = abs(histograms["first_centre"]) + histograms["bin_width"] / 2
    return Axis(-edge, edge, LEFT, RIGHT)


def _shape(histograms: dict[str, Any], snapshot: dict[str, Any], up: Axis) -> str:
    """The outline of the bars."""
    across = _across(histograms)
    width, first = histograms["bin_width"], histograms["first_centre"]
    path = [f"M{LEFT},{BOTTOM}"]
    for index, count in enumerate(snapshot["counts"]):
        centre = first + index * width
        height = up(math.sqrt(count / histograms["num_weights"]))
        path.append(f"L{across(centre - width / 2):g},{height:g}")
        path.append(f"L{across(centre + width / 2):g},{height:g}")
    return "".join(path) + f"L{RIGHT},{BOTTOM}Z"


def _code_mark(histograms: dict[str, Any], snapshot: dict[str, Any], code: float, up: Axis) -> str:
    """Where Q is, and how many weights are there."""
    x = _across(histograms)(code)
    index = round((code - histograms["first_centre"]) / histograms["bin_width"])
    share = snapshot["counts"][index] / histograms["num_weights"]
    height = up(math.sqrt(share))
    name = {-1: "−s", 0: "0", 1: "+s"}.get(code, f"{code:+g}s")
    text = f"{100 * share:.0f} %" if share > 0.1 else ""
    return "".join(
        [
            element("path", d=f"M{x},{BOTTOM + 3}l4,7h-8z", class_="code"),
            label(x, BOTTOM + 23, name, class_="centred"),
            label(x, height - 5, text, class_="share", data_bin=index),
        ]
    )
