"""Which layers of Hugging Face's networks are quantized by default."""

from __future__ import annotations

from collections.abc import Iterable

from binaryrelax_lab.report.figures.evidence import Evidence, Record
from binaryrelax_lab.report.figures.markdown import percent, table

FILE = "results/zoo/chosen-layers.json"


def of_transformers(evidence: Evidence) -> str:
    """A row for each network, and the version that it was built with."""
    rows = evidence.read(FILE)["rows"]
    headings = ("network", "quantized", "float", "weights quantized")
    return f"{table(headings, map(_network, rows))}\n\n{rows[0]['library']}, tiny configurations."


def _network(row: Record) -> tuple[str, ...]:
    return (
        row["name"],
        _code(name.rpartition(".N.")[2] for name in row["quantized"]),
        _code(row["float"]),
        percent(row["quantized_weights"] / row["weights"], 0),
    )


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


SECTIONS = {"chosen-layers": of_transformers}
