"""The rows of the result table."""

import math
from dataclasses import dataclass

from binaryrelax.lab.report.runs import FinishedRun

HEADINGS = (
    "Method",
    "Last epoch",
    "Best of Phase II",
    "Distance to Q",
    "Bits per weight",
    "Conv weights (saving)",
    "Whole network",
)
SHORT_HEADINGS = ("Method", "Last", "Best", "To Q", "Bits/weight", "Weights", "Saving")


@dataclass(frozen=True)
class TableRow:
    """One method; sizes in kilobytes of 1000 bytes, distance None for a float network."""

    method: str
    label: str
    last: float
    best: float
    distance: float | None
    bits_per_weight: float
    layers_kb: float
    layers_kb_float: float
    network_kb: float
    network_kb_float: float

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `HEADINGS`."""
        return (
            self.label,
            f"{self.last:.2f} %",
            f"{self.best:.2f} %",
            "not in Q" if self.distance is None else f"{self.distance:.3g}",
            f"{self.bits_per_weight:.5g}",
            _size(self.layers_kb, self.layers_kb_float),
            _size(self.network_kb, self.network_kb_float),
        )

    def short_cells(self) -> tuple[str, ...]:
        """The row as text that fits a terminal, in the order of `SHORT_HEADINGS`."""
        return (
            self.label,
            f"{self.last:.2f}",
            f"{self.best:.2f}",
            "-" if self.distance is None else f"{self.distance:.3g}",
            f"{self.bits_per_weight:.5g}",
            f"{self.layers_kb:.1f} KB",
            f"{self.layers_kb_float / self.layers_kb:.1f}×",
        )


def table_row(run: FinishedRun) -> TableRow:
    """The row of a run; the distance is that of all layers together."""
    summary, weights = run.result["summary"], run.result["weights"]
    size = weights["size"]
    distances = [layer["distance"] for layer in weights["layers"]]
    return TableRow(
        method=run.method,
        label=run.label,
        last=summary["last"],
        best=summary["best_phase_two"],
        distance=math.hypot(*distances) if run.is_quantized else None,
        bits_per_weight=size["bits_per_weight"],
        layers_kb=size["layers_bytes"] / 1000,
        layers_kb_float=size["layers_bytes_float"] / 1000,
        network_kb=size["network_bytes"] / 1000,
        network_kb_float=size["network_bytes_float"] / 1000,
    )


def _size(kilobytes: float, kilobytes_float: float) -> str:
    """A size, and how many times smaller than float it is."""
    times = kilobytes_float / kilobytes
    return f"{kilobytes:.1f} KB" + (f" ({times:.0f}×)" if times > 1 else "")
