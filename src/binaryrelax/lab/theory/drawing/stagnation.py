"""What each method does at small learning rates, on quadratics and on a network."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from binaryrelax.lab.drawing import COLOURS, label, legend_below, panels, title
from binaryrelax.lab.theory.drawing.methods import METHOD_COLOURS, by_method, colour_of

STYLES = {"binary": "-", "ternary": "--"}
TERNARY_COLOURS = {
    **METHOD_COLOURS,
    "BinaryConnect": COLOURS["twn"],
    "BinaryRelax": COLOURS["ternary"],
}
NONE = 2e-6  # where no weight at all is drawn; one weight of the network is 1e-5


def draw_stagnation(data: dict[str, Any]) -> Figure:
    """Shares of weights that change level above, losses below."""
    figure, (top, network_top, bottom, network_bottom) = panels(2, 2, size=(12, 8.2))
    _draw_quadratics(top, data["quadratics"]["records"], "changed")
    _draw_quadratics(bottom, data["quadratics"]["records"], "loss")
    _draw_network(network_top, data["network"]["records"], "changed")
    _draw_network(network_bottom, data["network"]["records"], "loss")
    title(top, "Quadratics: weights that ever change level")
    title(bottom, "Quadratics: loss at the end, start = 1")
    title(network_top, "Demo network: weights that ever change level")
    title(network_bottom, "Demo network: training loss at the end")
    top.yaxis.set_major_formatter(PercentFormatter(1, 0))
    top.set_ylim(0, 1)
    bottom.set_ylim(0, 0.75)
    _mark_zero(network_top)
    legend_below(figure, top, (0, 3, 1, 4, 2, 5))  # a column for each method
    return figure


def _draw_quadratics(axes: Axes, records: list[dict[str, Any]], key: str) -> None:
    for kind, style in STYLES.items():
        colours = METHOD_COLOURS if kind == "binary" else TERNARY_COLOURS
        for method, mine in by_method(r for r in records if r["set"] == kind).items():
            axes.plot(
                [r["rate"] for r in mine], [r[key] for r in mine], style, marker="o", ms=5, lw=2.2,
                color=colours[method], label=f"{method}, {kind}",
            )  # fmt: skip
    axes.set_xscale("log")
    label(axes, x="first learning rate × L (equal sums of learning rates)")


def _draw_network(axes: Axes, records: list[dict[str, Any]], key: str) -> None:
    for method, mine in by_method(records).items():
        floor = NONE if key == "changed" else 0.0
        axes.plot(
            [r["rate"] for r in mine], [max(r[key], floor) for r in mine], "-", marker="o", ms=5,
            lw=2.2, color=colour_of(method),
        )  # fmt: skip
    axes.set_xscale("log")
    label(axes, x="learning rate (equal numbers of steps)")


def _mark_zero(axes: Axes) -> None:
    """A logarithmic scale has no 0: none at all is drawn at its foot."""
    axes.set_yscale("log")
    axes.set_ylim(NONE / 1.8, 0.3)
    ticks = [NONE, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    axes.set_yticks(ticks, ["none", "0.001 %", "0.01 %", "0.1 %", "1 %", "10 %"])
    axes.minorticks_off()
