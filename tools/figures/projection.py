"""The benchmark of the projections."""

from __future__ import annotations

from figures.common import BENCHMARKS, read, table, time_or_note

PROJECTION = BENCHMARKS / "projection.json"


def projection_ternary() -> str:
    """Part (a) of the benchmark: a row per method, a column per size."""
    records = read(PROJECTION)["ternary"]
    sizes = sorted({record["size"] for record in records})
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        mine = {record["size"]: record for record in records if record["method"] == method}
        errors = [r["error"] for r in mine.values() if r.get("error") is not None]
        shown = f"{errors[-1]:.4f}" if errors else "-"
        rows.append((method, shown, *(time_or_note(mine.get(size)) for size in sizes)))
    return table(("", "error", *(f"{size:,}" for size in sizes)), rows) + machine_line()


def projection_lloyd() -> str:
    """Part (b): error over the optimum and time of Lloyd's algorithm."""
    records = read(PROJECTION)["lloyd"]
    bits = sorted({record["bits"] for record in records})
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        mine = {record["bits"]: record for record in records if record["method"] == method}
        cells = [f"{mine[b]['error']:.6f} (+{100 * mine[b]['excess']:.2f} %)" for b in bits]
        cells += [time_or_note(mine[b]) for b in bits]
        rows.append((method, *cells))
    headings = ("", *(f"error, {b} bits" for b in bits), *(f"time, {b} bits" for b in bits))
    return table(headings, rows) + machine_line()


def projection_sweep() -> str:
    """Part (c): time and peak extra memory of both sweeps."""
    records = read(PROJECTION)["sweep"]
    cells = {(r["size"], r["bits"], r["sweep"]): r for r in records}
    rows = []
    for size, bits in dict.fromkeys((r["size"], r["bits"]) for r in records):
        both = [cells.get((size, bits, sweep)) for sweep in ("bracketed", "full")]
        shown = ["-" if r is None else f"{time_or_note(r)}, {r['megabytes']:,.0f} MB" for r in both]
        ratio = f"{both[1]['seconds'] / both[0]['seconds']:.1f}×" if both[1] else "-"
        rows.append((f"{size:,}", str(bits), *shown, ratio))
    return table(("weights", "bits", "bracketed", "full sweep", "faster"), rows) + machine_line()


def machine_line() -> str:
    """What the benchmark ran on."""
    machine = read(PROJECTION)["machine"]
    return (
        f"\n\n{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}; "
        f"median of {read(PROJECTION)['repetitions']} interleaved repetitions."
    )


SECTIONS = {
    "projection-ternary": projection_ternary,
    "projection-lloyd": projection_lloyd,
    "projection-sweep": projection_sweep,
}
