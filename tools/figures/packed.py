"""The benchmark of packed networks, and the fuzzing of their files."""

from __future__ import annotations

from typing import Any

from binaryrelax.lab.recipes import NETWORK_NAMES
from figures.common import BENCHMARKS, RESULTS, read, table

PACKED = BENCHMARKS / "packed.json"
PACKED_GPU = BENCHMARKS / "packed_gpu.json"
FUZZ = RESULTS / "fuzz" / "packed.json"


def packed_summary() -> str:
    """The figures that matter most, a line each."""
    content = read(PACKED)
    files = {record["file"]: record["times_smaller"] for record in content["files"]}
    folded = ", batch normalization folded"
    rows = [
        (
            "file of ResNet-18 (CIFAR), against float32",
            f"{files['1 bit' + folded]:.1f}× smaller",
            f"{files['2 bits' + folded]:.1f}× smaller",
        ),
        ("ResNet-18, one image, CPU, against torch float32", *_fastest(content["network"])),
        ("4096 × 4096 times a vector, CPU, against torch float32", *_fastest(content["linear"])),
    ]
    if PACKED_GPU.is_file():
        records = [r for r in read(PACKED_GPU)["records"] if r["outputs"] == 4096]
        ratios = {r["bits"]: r["torch_over_ours"] for r in records if r["batch"] == 1}
        cells = [f"{ratios[bits]:.1f}×" for bits in (1, 2)]
        rows.append(("4096 × 4096 times a vector, H200, against torch bfloat16", *cells))
    return table(("", "1 bit", "ternary"), rows)


def packed_files() -> str:
    """Sizes of ResNet-18's files."""
    rows = [
        (record["file"], f"{record['bytes']:,}", f"{record['times_smaller']:.1f}×")
        for record in read(PACKED)["files"]
    ]
    return table(("ResNet-18 for CIFAR-10, whole file", "bytes", "smaller"), rows)


def packed_as_it_comes() -> str:
    """Whole networks without any setting: milliseconds, and how many times faster than torch."""
    records = read(PACKED)["as_it_comes"]
    rows = []
    cases: dict[tuple[str, ...], list[float]] = {}
    for r in records:
        case = (
            NETWORK_NAMES[r["network"]],
            str(r["batch"]),
            r.get("images", "channels_last"),
            r["weights"],
        )
        cases.setdefault(case, []).append(r["seconds"])
    for case, (base, *packed) in cases.items():
        times = [f"{1e3 * seconds:.2f} ms, {base / seconds:.1f}×" for seconds in packed]
        rows.append((*case, f"{1e3 * base:.2f} ms", *times))
    headings = ("network", "batch", "images", "weights", "torch float32", "packed, exact")
    return table((*headings, "packed, fast"), rows)


def packed_linear() -> str:
    """Microseconds per layer, and how many times faster than torch in float32."""
    content = read(PACKED)
    cases = list(dict.fromkeys((r["outputs"], r["inputs"], r["batch"]) for r in content["linear"]))
    found = {(r["engine"], (r["outputs"], r["inputs"], r["batch"])): r for r in content["linear"]}
    rows = []
    for engine in dict.fromkeys(r["engine"] for r in content["linear"]):
        cells = [_time_and_ratio(found, engine, case, "torch float32") for case in cases]
        rows.append((engine, *cells, f"{found[engine, cases[0]]['error']:.0e}"))
    headings = [f"{outputs} × {inputs}, batch {batch}" for outputs, inputs, batch in cases]
    shown = table(("outputs × inputs", *headings, "error"), rows)
    remark = (
        "Weights are not in a cache: many layers take turns. These are the kernels alone, as the "
        "other run times have no Python between layers; a packed PyTorch layer around one adds "
        f"{1e6 * content['layer_call_seconds']:.0f} µs."
    )
    return shown + _machine_line(content, remark)


def packed_network() -> str:
    """Convolutions one by one, and the whole network."""
    content = read(PACKED)
    base = content["convolutions"][0]["seconds"]
    rows = [
        (r["engine"], f"{1e3 * r['seconds']:.2f} ms", f"{base / r['seconds']:.1f}×")
        for r in content["convolutions"]
    ]
    convolutions = table(("all convolutions of ResNet-18, batch 1", "time", "faster"), rows)
    bases = {
        r["weights"]: r["seconds"] for r in content["network"] if r["engine"].startswith("torch")
    }
    rows = [
        (
            f"{r['weights']}: {r['engine']}",
            f"{1e3 * r['seconds']:.2f} ms",
            f"{bases[r['weights']] / r['seconds']:.1f}×",
            f"{r['error']:.0e}",
        )
        for r in content["network"]
    ]
    network = table(("ResNet-18 as a whole, batch 1", "time", "faster", "output error"), rows)
    line = _machine_line(content, "Errors are relative to float64, in the Euclidean norm.")
    return f"{convolutions}\n\n{network}{line}"


def packed_memory() -> str:
    """Peak memory in processes of their own."""
    rows = [
        (r["weights"], f"{r['loaded_mb']:,.0f} MB", f"{r['run_mb']:,.0f} MB")
        for r in read(PACKED)["memory"]
    ]
    return table(("8 Linear layers of 4096 × 4096", "peak, loaded", "peak, loaded and run"), rows)


def packed_gpu() -> str:
    """Times inside CUDA graphs, and the share of the bandwidth floor."""
    if not PACKED_GPU.is_file():
        return "Not measured yet."
    content = read(PACKED_GPU)
    rows = [_gpu_row(record) for record in content["records"]]
    headings = ("outputs × inputs", "bits", "batch", "packed", "torch bf16", "faster", "of floor")
    machine = content["environment"]
    line = (
        f"{machine['device']}, torch {machine['torch']}: device time inside a CUDA graph that goes "
        f"through copies of the weights, {content['copied_bytes'] >> 20} MiB or more in all, so "
        f"that none is in the cache. The floor is what must be read and written at "
        f"{content['bytes_per_second'] / 1e12:.2f} TB/s, measured by reading 1 GiB. Errors are "
        f"the largest over the largest output; outputs are rounded to bfloat16."
    )
    return f"{table((*headings, 'error'), rows)}\n\n{line}"


def packed_fuzz() -> str:
    """What became of the mutated files."""
    content = read(FUZZ)
    outcomes = {
        "refused": "refused with one line",
        "same": "same content",
        "sound": "a sound network of that shape",
    }
    assert not content["failures"], "a mutant has failed"
    rows = [
        (kind.replace("_", " "), *(f"{counts.get(outcome, 0):,}" for outcome in outcomes))
        for kind, counts in (content["damage"] | content["forgery"]).items()
    ]
    totals = [f"{content['outcomes'].get(outcome, 0):,}" for outcome in outcomes]
    line = (
        f"{content['mutants']:,} damaged copies of real files (`tools/fuzz_packed.py`), each "
        "loaded and certified under a limit of memory. None crashed, none was accepted with other "
        "content than it claims. Forgeries come with recomputed digests: what is sound then loads."
    )
    return f"{table(('damage', *outcomes.values()), [*rows, ('all', *totals)])}\n\n{line}"


def random_networks() -> str:
    """What became of random networks, stage by stage."""
    content = read(RESULTS / "fuzz" / "networks.json")
    assert not content["failures"], "a network has failed"
    rows = [
        (stage, *(f"{counts.get(outcome, 0):,}" for outcome in ("agrees", "refused")))
        for stage, counts in content["stages"].items()
    ]
    versions = content["versions"]
    line = (
        f"{content['networks']} networks, {content['agree_everywhere']} of which agree in all "
        f"stages; torch {versions['torch']}, ONNX Runtime {versions['onnxruntime']}, OpenVINO "
        f"{versions['openvino']}, {content['cpu']}."
    )
    return f"{table(('stage', 'agree', 'refused with one line'), rows)}\n\n{line}"


def _fastest(records: list[dict[str, Any]]) -> list[str]:
    """Times faster than torch in float32, at batch 1, in both modes, for 1 bit and for ternary."""
    first = [r for r in records if r.get("batch", 1) == 1 and r.get("inputs", 4096) == 4096]
    cells = []
    for title in ("1 bit", "2 bits"):
        mine = [r for r in first if r.get("weights", title) == title]
        base = next(r["seconds"] for r in mine if r["engine"].startswith("torch float32"))
        ratios = []
        for mode in ("exact", "fast"):
            names = (f"{title}, {mode}", f"packed, {mode}")
            seconds = next(r["seconds"] for r in mine if r["engine"] in names)
            ratios.append(f"{base / seconds:.1f}× ({mode})")
        cells.append(", ".join(ratios))
    return cells


def _gpu_row(record: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{record['outputs']} × {record['inputs']}",
        str(record["bits"]),
        str(record["batch"]),
        f"{record['microseconds']:.1f} µs",
        f"{record['torch_bf16_microseconds']:.1f} µs",
        f"{record['torch_over_ours']:.1f}×",
        f"{100 * record['share_of_floor']:.0f} %",
        f"{record['max_relative_error']:.0e}",
    )


def _time_and_ratio(found: dict[Any, Any], engine: str, case: Any, base: str) -> str:
    seconds = found[engine, case]["seconds"]
    return f"{1e6 * seconds:,.0f} µs ({found[base, case]['seconds'] / seconds:.1f}×)"


def _machine_line(content: dict[str, Any], remark: str) -> str:
    machine = content["machine"]
    return (
        f"\n\n{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}, kernels "
        f"{content['native']}; the least of {content['repetitions']} interleaved repetitions, "
        "ratios to torch float32. "
        f"{remark}"
    )


SECTIONS = {
    "packed-summary": packed_summary,
    "packed-files": packed_files,
    "packed-linear": packed_linear,
    "packed-network": packed_network,
    "packed-as-it-comes": packed_as_it_comes,
    "packed-memory": packed_memory,
    "packed-gpu": packed_gpu,
    "packed-fuzz": packed_fuzz,
    "packed-random-networks": random_networks,
}
