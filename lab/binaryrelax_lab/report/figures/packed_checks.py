"""What became of damaged files, random networks and those of other libraries when packed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import NOT_MEASURED, percent, table

PROGRAM_FILES, PROGRAMS = (f"results/fuzz/{name}.json" for name in ("network_files", "programs"))
ARM = "results/fuzz/aarch64.json"
OUTCOMES = {
    "refused": "refused with one line",
    "same": "same content",
    "sound": "a sound network of that shape",
}


def damaged_files(evidence: Evidence) -> str:
    """Outcomes of the mutants by their damage."""
    content = _without_failures(evidence, "results/fuzz/packed.json")
    what = "damaged copies of real files, each loaded and certified under a limit of memory"
    return f"{_by_kind(content, OUTCOMES)}\n\n{content['mutants']:,} {what}."


def damaged_programs(evidence: Evidence) -> str:
    """The same of files for the native runtime, which are also run."""
    if not evidence.has(PROGRAM_FILES):
        return NOT_MEASURED
    content = _without_failures(evidence, PROGRAM_FILES)
    line = (
        f"{content['files']:,} files, each read and run by code with the address and "
        f"undefined-behaviour sanitizers and a limit of {content['memory_limit_mb']} MB; the "
        f"longest took {content['longest_seconds']:.1f} s. {content['machine']}."
    )
    return f"{_by_kind(content, OUTCOMES | {'sound': 'a sound network'})}\n\n{line}"


def _by_kind(content: Record, outcomes: Mapping[str, str]) -> str:
    kinds = {
        **content["damage"], **content["forgery"], **content.get("lies", {}),
        "all": content["outcomes"],
    }  # fmt: skip
    rows = [
        (kind.replace("_", " "), *(f"{counts.get(outcome, 0):,}" for outcome in outcomes))
        for kind, counts in kinds.items()
    ]
    return table(("damage", *outcomes.values()), rows)


def random_programs(evidence: Evidence) -> str:
    """Random networks in the native runtime, stage by stage, and how near they come to torch."""
    if not evidence.has(PROGRAMS):
        return NOT_MEASURED
    content = _without_failures(evidence, PROGRAMS)
    rows = [(stage, f"{counts.get('agrees', 0):,}") for stage, counts in content["stages"].items()]
    errors = ", ".join(
        f"{mode}: at the median {found['median']:.0e}, at most {found['largest']:.0e}"
        for mode, found in content["errors"].items()
        if found
    )
    line = (
        f"{content['networks']:,} networks, {content['agree_everywhere']:,} of which agree in all "
        f"stages. Differences from torch, as shares of the largest output: {errors}. Instruction "
        f"sets: {', '.join(content['instruction_sets'])}; torch {content['versions']['torch']}, "
        f"{content['cpu']}."
    )
    return f"{table(('stage', 'agree'), rows)}\n\n{line}"


def on_arm(evidence: Evidence) -> str:
    """The runtime built for 64-bit ARM, under an emulator, beside the same on x86."""
    if not evidence.has(ARM):
        return NOT_MEASURED
    content = _without_failures(evidence, ARM)
    sets = content["instruction_sets"]
    networks = sum(n for kind, n in content["runs"].items() if kind.startswith("fast")) // len(sets)
    differences = content["largest_differences"].items()
    largest = ", ".join(f"{kind} {found:.0e}" for kind, found in differences)
    return (
        f"{networks:,} networks in both modes and {sum(content['forged_files'].values()):,} forged "
        f"files, on {' and '.join(sets)}: no disagreement. Largest differences, as shares of the "
        f"largest output: {largest}. {content['compiler']}; {content['emulator']}."
    )


def random_networks(evidence: Evidence) -> str:
    """Outcomes of random networks, stage by stage."""
    content = _without_failures(evidence, "results/fuzz/networks.json")
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


def _without_failures(evidence: Evidence, name: str) -> Record:
    content: Record = evidence.read(name)
    if content["failures"]:
        page = "docs/evidence/packed-networks.md"
        raise ValueError(f"{name} holds failures, and {page} says that there are none")
    return content


def of_library(evidence: Evidence, library: str) -> str:
    """A row for each network of a library; of its quantizers the worst."""
    file = f"results/zoo/{library}.json"
    if not evidence.has(file):
        return NOT_MEASURED
    content = evidence.read(file)
    networks = grouped(content["rows"], lambda row: row["name"])
    where = content["environment"]
    line = f"{content['rows'][0]['library']}, torch {where['torch']}, {where['device']}."
    headings = ("network", "weights", "packed", "file, ternary", "file, 1 bit")
    more = ("float32", "float32, kernels", "bfloat16", "loaded", "outcome")
    return f"{table((*headings, *more), map(_network, networks.values()))}\n\n{line}"


def _network(rows: list[Record]) -> tuple[str, ...]:
    first = rows[0]
    return (
        first["name"],
        f"{first['weights']:,}",
        percent(first.get("packed_weights", 0) / first["weights"], 0),
        _smaller(rows, "Ternary"),
        _smaller(rows, "Binary"),
        _difference(rows, "float32", by_kernels=False),
        _difference(rows, "float32", by_kernels=True),
        _difference(rows, "bfloat16", by_kernels=None),
        _loaded(rows),
        _outcome(rows),
    )


def _smaller(rows: list[Record], quantizer: str) -> str:
    row = next((row for row in rows if row["quantizer"].startswith(quantizer)), {})
    return f"{row['float_bytes'] / row['file_bytes']:.1f}×" if "file_bytes" in row else "-"


def _difference(rows: list[Record], precision: str, *, by_kernels: bool | None) -> str:
    """The largest difference from the float network, by torch, by kernels or by any engine."""
    found = [
        record
        for row in rows
        for engine, record in row.get("precisions", {})
        .get(precision, {})
        .get("engines", {})
        .items()
        if by_kernels is None or by_kernels == (engine != "torch")
    ]
    if not found:
        return "-"
    if all(record["same_bits"] for record in found):
        return "same bits"
    return f"{max(record['difference'] for record in found):.0e}"


def _loaded(rows: list[Record]) -> str:
    """Whether what was loaded is equal, and into which models loading was refused."""
    loads = [load for row in rows for load in row.get("loads", {}).items()]
    outcomes = {outcome.partition(":")[0] for _, outcome in loads if outcome != "equal"}
    others = dict.fromkeys(way for way, outcome in loads if outcome != "equal")
    if not loads or "differs" in outcomes:
        return "differs" if loads else "-"
    return f"equal; {', '.join(others)}: {', '.join(sorted(outcomes))}" if others else "equal"


def _outcome(rows: list[Record]) -> str:
    worst = next((row["status"] for row in rows if row["status"] != "agrees"), "agrees")
    kept, refusals = rows[0].get("keep_float", []), " ".join(rows[0].get("refusals", []))
    if not kept:
        return str(worst)
    kinds = dict.fromkeys(re.findall(r" is a [\w.]*?(\w+)[:;,]", refusals))
    noun = "layer" if len(kept) == 1 else "layers"
    return f"{worst}; refused and kept float: {len(kept)} {noun} ({', '.join(kinds)})"


SECTIONS = {
    "packed-fuzz": damaged_files,
    "packed-random-networks": random_networks,
    "native-fuzz": damaged_programs,
    "native-random-programs": random_programs,
    "native-arm": on_arm,
    "zoo-huggingface": partial(of_library, library="huggingface"),
    "zoo-timm": partial(of_library, library="timm"),
}
