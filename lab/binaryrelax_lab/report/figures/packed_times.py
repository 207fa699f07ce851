"""Packed networks beside float ones: bytes of files, times, memory."""

from __future__ import annotations

from binaryrelax_lab.recipes import NETWORK_NAMES
from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import (
    NOT_MEASURED,
    Columns,
    percent,
    record_table,
    table,
    table_of,
)
from binaryrelax_lab.report.figures.measured_networks import (
    ONE_IMAGE,
    WIDTHS,
    Engines,
    MeasuredNetworks,
    advantage,
    ours,
)
from binaryrelax_lab.report.figures.network_times import PRECISION_OF, ratio_text

PACKED, PACKED_GPU = (f"benchmarks/results/{name}.json" for name in ("packed", "packed_gpu"))
TORCH = "torch float32"


def summary(evidence: Evidence) -> str:
    """The figures that matter most, a line each."""
    content = evidence.read(PACKED)
    sizes = {record["file"]: record["times_smaller"] for record in content["files"]}
    files = [
        f"{sizes[f'{b}, batch normalization folded']:.1f}× smaller" for b in ("1 bit", "2 bits")
    ]
    rows = [
        ("file of ResNet-18 (CIFAR), against float32", *files),
        *(
            (f"{title}, one image, CPU", *(_beside_the_best(engines, w) for w in WIDTHS))
            for title, engines in MeasuredNetworks.of(evidence).times(ONE_IMAGE).items()
        ),
        ("4096 × 4096 times a vector, CPU, against torch float32", *_fastest(content["linear"])),
    ]
    if evidence.has(PACKED_GPU):
        records = [r for r in evidence.read(PACKED_GPU)["records"] if r["outputs"] == 4096]
        ratios = {r["bits"]: f"{r['torch_over_ours']:.1f}×" for r in records if r["batch"] == 1}
        words = "4096 × 4096 times a vector, H200, against torch bfloat16"
        rows.append((words, ratios[1], ratios[2]))
    return table(("", "1 bit", "ternary"), rows)


def _beside_the_best(engines: Engines, weights: str) -> str:
    """How many times faster our runtime is than the best int8 and the best float32 engine."""
    found = {
        mode: advantage(engines, ours(mode, weights), precision)
        for mode, precision in PRECISION_OF.items()
    }
    return ", ".join(f"{ratio_text(ratio)} ({mode})" for mode, ratio in found.items())


def _fastest(records: list[Record]) -> list[str]:
    """Times faster than torch in float32, at batch 1, in both modes, for 1 bit and for ternary."""
    first = [r for r in records if r.get("batch", 1) == 1 and r.get("inputs", 4096) == 4096]
    cells = []
    for title in ("1 bit", "2 bits"):
        mine = {r["engine"]: r["seconds"] for r in first if r.get("weights", title) == title}
        base = next(seconds for engine, seconds in mine.items() if engine.startswith(TORCH))
        of_mode = {
            mode: mine.get(f"{title}, {mode}") or mine[f"packed, {mode}"]
            for mode in ("exact", "fast")
        }
        cells.append(", ".join(f"{base / s:.1f}× ({mode})" for mode, s in of_mode.items()))
    return cells


def as_it_comes(evidence: Evidence) -> str:
    """Whole networks without any setting: milliseconds, and how many times faster than torch."""
    rows = []
    for case, records in grouped(evidence.read(PACKED, "as_it_comes"), _case).items():
        base, *packed = (record["seconds"] for record in records)
        times = [f"{1e3 * seconds:.2f} ms, {base / seconds:.1f}×" for seconds in packed]
        rows.append((*case, f"{1e3 * base:.2f} ms", *times))
    headings = ("network", "batch", "images", "weights", TORCH, "packed, exact", "packed, fast")
    return table(headings, rows)


def _case(r: Record) -> tuple[str, ...]:
    images = r.get("images", "channels_last")
    return NETWORK_NAMES[r["network"]], str(r["batch"]), images, r["weights"]


def linear(evidence: Evidence) -> str:
    """Microseconds per layer, and how many times faster than torch in float32."""
    content = evidence.read(PACKED)
    engines = grouped(content["linear"], lambda r: r["engine"])
    rows = []
    for engine, mine in engines.items():
        times = [_time_and_ratio(*both) for both in zip(mine, engines[TORCH], strict=True)]
        rows.append((engine, *times, f"{mine[0]['error']:.0e}"))
    remark = (
        "Weights are not in a cache: many layers take turns. These are the kernels alone, as the "
        "other run times have no Python between layers; a packed PyTorch layer around one adds "
        f"{1e6 * content['layer_call_seconds']:.0f} µs."
    )
    cases = [f"{r['outputs']} × {r['inputs']}, batch {r['batch']}" for r in engines[TORCH]]
    return table(("outputs × inputs", *cases, "error"), rows) + _machine(content, remark)


def _time_and_ratio(ours: Record, base: Record) -> str:
    return f"{1e6 * ours['seconds']:,.0f} µs ({base['seconds'] / ours['seconds']:.1f}×)"


def network(evidence: Evidence) -> str:
    """Convolutions one by one, and the whole network."""
    content = evidence.read(PACKED)
    one_by_one, whole = content["convolutions"], content["network"]
    base = one_by_one[0]["seconds"]
    bases = {r["weights"]: r["seconds"] for r in whole if r["engine"].startswith("torch")}
    convolutions: Columns = {
        "all convolutions of ResNet-18, batch 1": lambda r: r["engine"],
        "time": lambda r: f"{1e3 * r['seconds']:.2f} ms",
        "faster": lambda r: f"{base / r['seconds']:.1f}×",
    }
    networks: Columns = {
        "ResNet-18 as a whole, batch 1": lambda r: f"{r['weights']}: {r['engine']}",
        "time": lambda r: f"{1e3 * r['seconds']:.2f} ms",
        "faster": lambda r: f"{bases[r['weights']] / r['seconds']:.1f}×",
        "output error": lambda r: f"{r['error']:.0e}",
    }
    tables = f"{table_of(one_by_one, convolutions)}\n\n{table_of(whole, networks)}"
    remark = "Errors are relative to float64, in the Euclidean norm."
    return tables + _machine(content, remark)


def gpu(evidence: Evidence) -> str:
    """Times inside CUDA graphs, and the share of the bandwidth floor."""
    if not evidence.has(PACKED_GPU):
        return NOT_MEASURED
    content = evidence.read(PACKED_GPU)
    columns = {
        "outputs × inputs": lambda r: f"{r['outputs']} × {r['inputs']}",
        "bits": lambda r: str(r["bits"]),
        "batch": lambda r: str(r["batch"]),
        "packed": lambda r: f"{r['microseconds']:.1f} µs",
        "torch bf16": lambda r: f"{r['torch_bf16_microseconds']:.1f} µs",
        "faster": lambda r: f"{r['torch_over_ours']:.1f}×",
        "of floor": lambda r: percent(r["share_of_floor"], 0),
        "error": lambda r: f"{r['max_relative_error']:.0e}",
    }
    machine = content["environment"]
    line = (
        f"{machine['device']}, torch {machine['torch']}: device time inside a CUDA graph that goes "
        f"through copies of the weights, {content['copied_bytes'] >> 20} MiB or more in all, so "
        f"that none is in the cache. The floor is what must be read and written at "
        f"{content['bytes_per_second'] / 1e12:.2f} TB/s, measured by reading 1 GiB. Errors are "
        f"the largest over the largest output; outputs are rounded to bfloat16."
    )
    return f"{table_of(content['records'], columns)}\n\n{line}"


def _machine(content: Record, remark: str) -> str:
    machine = content["machine"]
    return (
        f"\n\n{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}, kernels "
        f"{content['native']}; the least of {content['repetitions']} interleaved repetitions, "
        f"ratios to torch float32. {remark}"
    )


TABLES: dict[tuple[str, str], Columns] = {  # by section and key of the records
    ("packed-files", "files"): {
        "ResNet-18 for CIFAR-10, whole file": lambda r: r["file"],
        "bytes": lambda r: f"{r['bytes']:,}",
        "smaller": lambda r: f"{r['times_smaller']:.1f}×",
    },
    ("packed-memory", "memory"): {  # in processes of their own
        "8 Linear layers of 4096 × 4096": lambda r: r["weights"],
        "peak, loaded": lambda r: f"{r['loaded_mb']:,.0f} MB",
        "peak, loaded and run": lambda r: f"{r['run_mb']:,.0f} MB",
    },
}
SECTIONS = {
    **{name: record_table(PACKED, key, columns=c) for (name, key), c in TABLES.items()},
    "packed-summary": summary,
    "packed-as-it-comes": as_it_comes,
    "packed-linear": linear,
    "packed-network": network,
    "packed-gpu": gpu,
}
