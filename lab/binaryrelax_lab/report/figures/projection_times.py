"""The benchmark of the projections."""

from __future__ import annotations

from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import table

FILE = "benchmarks/results/projection.json"


def ternary(evidence: Evidence) -> str:
    """Part (a) of the benchmark: a row per method, a column per size."""
    content = evidence.read(FILE)
    sizes = sorted({record["size"] for record in content["ternary"]})
    rows = []
    for method, records in grouped(content["ternary"], lambda r: r["method"]).items():
        mine = {record["size"]: record for record in records}
        errors = [r["error"] for r in mine.values() if r.get("error") is not None]
        shown = f"{errors[-1]:.4f}" if errors else "-"
        rows.append((method, shown, *(_time_or_note(mine.get(size)) for size in sizes)))
    return table(("", "error", *(f"{size:,}" for size in sizes)), rows) + _machine(content)


def lloyd(evidence: Evidence) -> str:
    """Part (b): error over the optimum and time of Lloyd's algorithm."""
    content = evidence.read(FILE)
    bits = sorted({record["bits"] for record in content["lloyd"]})
    rows = []
    for method, records in grouped(content["lloyd"], lambda r: r["method"]).items():
        mine = {record["bits"]: record for record in records}
        errors = [f"{mine[b]['error']:.6f} (+{100 * mine[b]['excess']:.2f} %)" for b in bits]
        rows.append((method, *errors, *(_time_or_note(mine[b]) for b in bits)))
    headings = [f"{what}, {b} bits" for what in ("error", "time") for b in bits]
    return table(("", *headings), rows) + _machine(content)


def sweep(evidence: Evidence) -> str:
    """Part (c): time and peak extra memory of both sweeps."""
    content = evidence.read(FILE)
    rows = []
    for (size, bits), records in grouped(
        content["sweep"], lambda r: (r["size"], r["bits"])
    ).items():
        sweeps = {record["sweep"]: record for record in records}
        ours, full = sweeps["bracketed"], sweeps.get("full")
        ratio = f"{full['seconds'] / ours['seconds']:.1f}×" if full else "-"
        rows.append((f"{size:,}", str(bits), _time_and_memory(ours), _time_and_memory(full), ratio))
    headings = ("weights", "bits", "bracketed", "full sweep", "faster")
    return table(headings, rows) + _machine(content)


def _time_and_memory(record: Record | None) -> str:
    return f"{_time_or_note(record)}, {record['megabytes']:,.0f} MB" if record else "-"


def _time_or_note(record: Record | None) -> str:
    """Milliseconds, or why there are none."""
    if record is None:
        return "-"
    return f"{1000 * record['seconds']:,.1f} ms" if "seconds" in record else str(record["note"])


def _machine(content: Record) -> str:
    """What the benchmark ran on."""
    machine = content["machine"]
    return (
        f"\n\n{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}; "
        f"median of {content['repetitions']} interleaved repetitions."
    )


SECTIONS = {"projection-ternary": ternary, "projection-lloyd": lloyd, "projection-sweep": sweep}
