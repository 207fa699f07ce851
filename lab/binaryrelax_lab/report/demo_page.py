"""The page of the demo: tables, curves, and weights sliding into Q."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from binaryrelax_lab.files import write_atomically
from binaryrelax_lab.report.epoch_chart import NARROW, WIDE, ChartDrawing, chart_of
from binaryrelax_lab.report.rendering import html
from binaryrelax_lab.report.run_facts import circumstances
from binaryrelax_lab.report.weight_panels import PanelDrawing, drawings_of
from binaryrelax_lab.results import RunResult

PACKED_HEADINGS = ("Packed", "Bytes", "Smaller", "Certified", "Trained", "From the file")


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
    layers_saving: float
    network_kb: float
    network_saving: float

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of the page's columns."""
        return (
            self.label,
            f"{self.last:.2f} %",
            f"{self.best:.2f} %",
            "not in Q" if self.distance is None else f"{self.distance:.3g}",
            f"{self.bits_per_weight:.5g}",
            _size(self.layers_kb, self.layers_saving),
            _size(self.network_kb, self.network_saving),
        )


@dataclass(frozen=True)
class PackedRow:
    """A network as a packed file, and its accuracies as it was trained and from the file."""

    method: str
    label: str
    file_bytes: int
    saving: float
    is_certified: bool
    trained: float
    from_the_file: float

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `PACKED_HEADINGS`."""
        return (
            self.label,
            f"{self.file_bytes:,}",
            f"{self.saving:.1f}×",
            "yes" if self.is_certified else "no",
            f"{self.trained:.2f}",
            f"{self.from_the_file:.2f}",
        )


def write_page(path: Path, runs: Sequence[RunResult], packed: Sequence[PackedRow] = ()) -> None:
    """Writes the page about these runs, and the files that they were packed into."""
    write_atomically(path, demo_page(runs, packed).encode())


def demo_page(runs: Sequence[RunResult], packed: Sequence[PackedRow] = ()) -> str:
    """The page; every number in it is computed from the runs."""
    rows = [table_row(run) for run in runs]
    by_method = {row.method: row for row in rows}
    chart = chart_of([[run] for run in runs])
    moving = _moving(runs)
    return html(
        "demo.html",
        runs=runs,
        rows=rows,
        float=by_method.get("float"),
        binary=by_method.get("binary"),
        drawings=[ChartDrawing(chart, layout, "chart") for layout in (WIDE, NARROW)],
        moving=moving,
        packed_headings=PACKED_HEADINGS,
        packed=packed,
        circumstances=[{**run.recipe.settings, **circumstances(run)} for run in runs],
        data={
            "charts": {"chart": chart.as_json()},
            "histograms": [[drawing.as_json() for drawing in drawings] for _, drawings in moving],
        },
    )


def table_row(run: RunResult) -> TableRow:
    """The row of a run; the distance is that of all layers together."""
    weights, best = run.weights, run.best
    assert weights is not None and weights.size is not None and best is not None
    size, distances = weights.size, [layer.distance or 0.0 for layer in weights.layers]
    return TableRow(
        method=run.method,
        label=run.label,
        last=run.last,
        best=best,
        distance=math.hypot(*distances) if run.recipe.is_quantized else None,
        bits_per_weight=size.bits_per_weight,
        layers_kb=size.layers_bytes / 1000,
        layers_saving=size.layers_bytes_float / size.layers_bytes,
        network_kb=size.network_bytes / 1000,
        network_saving=size.network_bytes_float / size.network_bytes,
    )


def _moving(runs: Sequence[RunResult]) -> list[tuple[RunResult, list[PanelDrawing]]]:
    """The quantized networks that have histograms, each with its weights at all moments."""
    found = [(run, run.histograms) for run in runs if run.recipe.is_quantized and run.histograms]
    drawings = drawings_of([histograms for _, histograms in found])
    return [(run, moments) for (run, _), moments in zip(found, drawings, strict=True)]


def _size(kilobytes: float, times: float) -> str:
    """A size, and how many times smaller than float it is."""
    return f"{kilobytes:.1f} KB" + (f" ({times:.0f}×)" if times > 1 else "")
