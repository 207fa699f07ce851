"""Writes the figures in README and docs from the JSON files of runs and benchmarks.

A page says where: everything between `<!-- figures: NAME -->` and `<!-- end -->` is replaced.

    python tools/fill_figures.py            write the pages
    python tools/fill_figures.py --check    only say which pages are out of date (exit status 1)
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
DEMO = ROOT / "results" / "fashion-mnist-12k"
PROJECTION = ROOT / "benchmarks" / "results" / "projection.json"
STEP = ROOT / "benchmarks" / "results" / "step.json"
VARIANTS = {
    "float": "float",
    "binary": "BinaryRelax, 1 bit",
    "ternary": "BinaryRelax, ternary (TWN)",
    "ternary-exact": "BinaryRelax, exact ternary",
}
FIGURES = ("last", "best_phase_two")
METHODS = {
    "demo-float": "float",
    "demo-bwn": "1 bit, BWN",
    "demo-binary": "1 bit, BinaryRelax",
    "demo-twn": "ternary, TWN",
    "demo-ternary": "ternary, BinaryRelax",
}


def main() -> int:
    """Fill all pages; with --check, change nothing."""
    stale = [page for page in PAGES if filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'out of date' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            page.write_text(filled(page.read_text()))
    return 1 if stale and "--check" in sys.argv else 0


def filled(text: str) -> str:
    """The page with every marked section made anew."""

    def section(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{SECTIONS[match[2]]()}\n\n<!-- end -->"

    return re.sub(r"(<!-- figures: ([\w-]+) -->).*?<!-- end -->", section, text, flags=re.DOTALL)


def demo_seeds() -> str:
    """Accuracy of the demo's five networks over all seeds there are, at two lengths."""
    rows = []
    for recipe, label in METHODS.items():
        short, long = demo_summaries(recipe), demo_summaries(f"{recipe}@12")
        cells = [spread([s[key] for s in runs]) for runs in (short, long) for key in FIGURES]
        in_q = {s["in_q"] for s in short + long}
        ends = {frozenset([True]): "yes", frozenset([None]): "-"}.get(frozenset(in_q), "NO")
        rows.append((label, *cells, f"{len(short)} + {len(long)}", ends))
    columns = [f"{word}, {n} epochs" for n in (10, 12) for word in ("last", "best of Phase II")]
    return table(("method", *columns, "seeds", "ends in Q"), rows)


def demo_summaries(recipe: str) -> list[dict[str, Any]]:
    """The summary of each seed's run."""
    return [read(path)["summary"] for path in sorted((DEMO / recipe).glob("seed*.json"))]


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


def cifar10() -> str:
    """The runs of Table 1 that there are."""
    rows = []
    for folder in sorted((ROOT / "results" / "cifar10").iterdir()):
        runs = [read(path) for path in sorted(folder.glob("seed*.json"))]
        paper = runs[0]["recipe"]["paper_accuracy"]
        cells = [spread([run["summary"][key] for run in runs]) for key in FIGURES]
        rows.append((folder.name, "-" if paper is None else f"{paper}", *cells, str(len(runs))))
    return table(("recipe", "paper", "last", "best of Phase II", "seeds"), rows)


def step_alone() -> str:
    """Milliseconds of a whole training step, and the share that BinaryRelax takes of it."""
    records = {(r["network"], r["variant"]): r for r in read(STEP)["alone"]}
    rows = []
    for network in dict.fromkeys(network for network, _ in records):
        cells = []
        for variant in VARIANTS:
            found = records.get((network, variant))
            share = f" ({100 * found['share']:.1f} %)" if found and variant != "float" else ""
            cells.append(f"{found['milliseconds']:.2f} ms{share}" if found else "-")
        eager = next(r for r in read(STEP)["eager"] if r["network"] == network)
        cells += [f"{eager['plain_milliseconds']:.1f} ms", f"{eager['parq_milliseconds']:.1f} ms"]
        rows.append((network, *cells))
    headings = ("", *VARIANTS.values(), "plain eager PyTorch", "eager with PARQ")
    return table(headings, rows) + step_machine_line()


def step_side_by_side() -> str:
    """Several networks at once."""
    record = read(STEP)["side_by_side"]
    return (
        f"{record['networks']} times {record['network']} side by side, a CUDA graph and a stream "
        f"each: {record['milliseconds']:.2f} ms per step and network."
    )


def step_optimizer() -> str:
    """``optimizer.step()`` in eager mode."""
    record = read(STEP)["optimizer_step"]
    base = record["fused SGD"]
    names = [name for name in record if name not in ("network", "fused SGD", "note")]
    rows = [(name, f"{record[name]:.2f} ms", f"{record[name] / base:.1f}×") for name in names]
    shown = table(
        (f"`optimizer.step()`, {record['network']}", "eager", "of fused SGD"),
        [("fused SGD", f"{base:.2f} ms", "1"), *rows],
    )
    return f"{shown}\n\nThis table: {record['note']}." if "note" in record else shown


def step_long_row() -> str:
    """One tensor of 11 million weights."""
    record = read(STEP)["long_row"]
    rows = [
        (name, f"{1000 * value:,.0f} µs") for name, value in record.items() if name != "weights"
    ]
    return table((f"{record['weights']:,} weights in one tensor, inside a CUDA graph", ""), rows)


def step_profile() -> str:
    """Where the time of a step goes."""
    return profile_tables(read(STEP))


def profile_tables(content: dict[str, Any]) -> str:
    """A table per network: the parts of a step of 1 bit, and what exact ternary needs."""
    profile = content.get("profile")
    if profile is None:
        return "Not measured yet."
    records = {(r["network"], r["variant"]): r for r in profile["records"]}
    networks = dict.fromkeys(network for network, _ in records)
    tables = [
        profile_table(network, records[network, "binary"], records[network, "ternary-exact"])
        for network in networks
    ]
    line = (
        f"{content['environment']['device']}, torch {content['environment']['torch']}: "
        f"{profile['bytes_per_second'] / 1e12:.2f} TB/s in a copy of 1 GiB, "
        f"{profile['operations_per_second'] / 1e12:,.0f} TFLOP/s in a bf16 product of 8192 × 8192 "
        f"matrices; means of {profile['steps']} profiled steps."
    )
    return "\n\n".join([*tables, line])


def profile_table(network: str, binary: dict[str, Any], ternary: dict[str, Any]) -> str:
    """The parts of one network's step."""
    wall, surplus = binary["wall_microseconds"], binary["surplus_microseconds"]
    idle = {"microseconds": binary["idle_microseconds"], "floor_microseconds": None}
    update = next(part for part in ternary["kinds"] if part["kind"] == "optimizer and relaxation")
    rows = [
        *(profile_row(part["kind"], part, wall) for part in binary["kinds"]),
        profile_row("idle between kernels", idle, wall),
        profile_row(
            "*optimizer and relaxation, exact ternary*", update, ternary["wall_microseconds"]
        ),
    ]
    title = f"{network}, 1 bit: {wall:,.0f} µs, {binary['kernels']:.0f} kernels and copies"
    shown = table((title, "time", "share", "at least", "floor", "time / floor"), rows)
    if not surplus:
        return shown
    return (
        shown + f"\n\nUnder the profiler, kernels add up to {surplus:,.0f} µs more than the step."
    )


def profile_row(label: str, part: dict[str, Any], wall: float) -> tuple[str, ...]:
    """Time, share of the step, what must be done, the floor, and how far above it."""
    time, floor = part["microseconds"], part["floor_microseconds"]
    cells = (label, f"{time:,.1f} µs", f"{100 * time / wall:.1f} %")
    if floor is None:
        return (*cells, "-", "-", "-")
    work = f"{part['bytes'] / 1e6:,.1f} MB"
    if part["operations"]:
        work += f", {part['operations'] / 1e9:,.1f} GFLOP"
    return (*cells, work, f"{floor:,.1f} µs", f"{time / floor:.1f}")


def step_machine_line() -> str:
    """What the step benchmark ran on."""
    content = read(STEP)
    machine = content["environment"]
    return (
        f"\n\n{machine['device']}, torch {machine['torch']}, {machine['precision']}, batch "
        f"{content['batch_size']}; medians of {content['rounds']} interleaved rounds of "
        f"{content['steps_a_round']} steps."
    )


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    return f"{fmean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def time_or_note(record: dict[str, Any] | None) -> str:
    """Milliseconds, or why there are none."""
    if record is None:
        return "-"
    return f"{1000 * record['seconds']:,.1f} ms" if "seconds" in record else record["note"]


def machine_line() -> str:
    """What the benchmark ran on."""
    machine = read(PROJECTION)["machine"]
    return (
        f"\n\n{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}; "
        f"median of {read(PROJECTION)['repetitions']} interleaved repetitions."
    )


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text())


SECTIONS: dict[str, Callable[[], str]] = {
    "demo-seeds": demo_seeds,
    "projection-ternary": projection_ternary,
    "projection-lloyd": projection_lloyd,
    "projection-sweep": projection_sweep,
    "cifar10": cifar10,
    "step-alone": step_alone,
    "step-side-by-side": step_side_by_side,
    "step-optimizer": step_optimizer,
    "step-long-row": step_long_row,
    "step-profile": step_profile,
}

if __name__ == "__main__":
    raise SystemExit(main())
