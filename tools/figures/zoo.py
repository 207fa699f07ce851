"""Networks of other libraries: what became of them when they were packed."""

from __future__ import annotations

import re
from typing import Any

from figures.common import RESULTS, read, table

HEADINGS = (
    *("network", "weights", "packed", "file, ternary", "file, 1 bit"),
    *("float32", "float32, kernels", "bfloat16", "loaded", "outcome"),
)


def zoo_huggingface() -> str:
    """Tiny networks of transformers."""
    return _zoo("huggingface")


def zoo_timm() -> str:
    """Networks of timm."""
    return _zoo("timm")


def _zoo(name: str) -> str:
    file = RESULTS / "zoo" / f"{name}.json"
    if not file.is_file():
        return "Not measured yet."
    content = read(file)
    networks: dict[str, list[dict[str, Any]]] = {}
    for row in content["rows"]:
        networks.setdefault(row["name"], []).append(row)
    machine = content["environment"]
    line = f"{content['rows'][0]['library']}, torch {machine['torch']}, {machine['device']}."
    return f"{table(HEADINGS, [_line(rows) for rows in networks.values()])}\n\n{line}"


def _line(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """One network; of its quantizers the worst."""
    row = rows[0]
    packed = row.get("packed_weights", 0) / row["weights"]
    sizes = (_smaller(rows, "Ternary"), _smaller(rows, "Binary"))
    differences = (
        _difference(rows, "float32", by_kernels=False),
        _difference(rows, "float32", by_kernels=True),
        _difference(rows, "bfloat16", by_kernels=None),
    )
    name = (row["name"], f"{row['weights']:,}", f"{100 * packed:.0f} %")
    return (*name, *sizes, *differences, _loaded(rows), _outcome(rows))


def _smaller(rows: list[dict[str, Any]], quantizer: str) -> str:
    row = next((row for row in rows if row["quantizer"].startswith(quantizer)), {})
    return f"{row['float_bytes'] / row['file_bytes']:.1f}×" if "file_bytes" in row else "-"


def _difference(rows: list[dict[str, Any]], precision: str, *, by_kernels: bool | None) -> str:
    """The largest difference from the float network, by torch, by kernels or by any engine."""
    engines = [row.get("precisions", {}).get(precision, {}).get("engines", {}) for row in rows]
    found = [
        record
        for records in engines
        for engine, record in records.items()
        if by_kernels is None or by_kernels == (engine != "torch")
    ]
    if not found:
        return "-"
    if all(record["same_bits"] for record in found):
        return "same bits"
    return f"{max(record['difference'] for record in found):.0e}"


def _loaded(rows: list[dict[str, Any]]) -> str:
    """Whether what was loaded is equal, and into which models loading was refused."""
    loads = [load for row in rows for load in row.get("loads", {}).items()]
    outcomes = {outcome.partition(":")[0] for _, outcome in loads if outcome != "equal"}
    others = dict.fromkeys(way for way, outcome in loads if outcome != "equal")
    if not loads or "differs" in outcomes:
        return "differs" if loads else "-"
    return f"equal; {', '.join(others)}: {', '.join(sorted(outcomes))}" if others else "equal"


def _outcome(rows: list[dict[str, Any]]) -> str:
    statuses = [row["status"] for row in rows]
    worst = next((status for status in statuses if status != "agrees"), "agrees")
    kept, refusals = rows[0].get("keep_float", []), " ".join(rows[0].get("refusals", []))
    if not kept:
        return worst
    kinds = dict.fromkeys(re.findall(r" is a [\w.]*?(\w+)[:;,]", refusals))
    noun = "layer" if len(kept) == 1 else "layers"
    return f"{worst}; refused and kept float: {len(kept)} {noun} ({', '.join(kinds)})"


SECTIONS = {"zoo-huggingface": zoo_huggingface, "zoo-timm": zoo_timm}
