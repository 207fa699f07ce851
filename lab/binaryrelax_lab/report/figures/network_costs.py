"""What a network costs beside its time: bytes, memory, the wait for a first answer, accuracy."""

from __future__ import annotations

from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import NOT_MEASURED, NOTHING, table, table_of
from binaryrelax_lab.report.figures.measured_networks import NAMES, WIDTHS, MeasuredNetworks

DATASETS = {"cifar10": "10 classes", "cifar100": "100 classes", "imagenet": "ImageNet"}

FILES = {  # by its heading, one of those that are measured
    "float32": "float32",
    "ONNX int8": "ONNX int8",
    **{f"packed, {w}": f"packed model, {w}" for w in WIDTHS},
    **{f"ours, {w}": f"ours, fast, {w}" for w in WIDTHS},
}


def files(evidence: Evidence) -> str:
    """Bytes of files, and how many times smaller than the float one."""
    records = MeasuredNetworks.of(evidence).content["files"]
    rows = []
    for (network, dataset), mine in grouped(records, _network).items():
        sizes = {record["file"]: record["bytes"] for record in mine}
        name = f"{NAMES[network]}, {DATASETS[dataset]}"
        rows.append((name, *(_size(sizes, file) for file in FILES.values())))
    return table(("file, kB", *FILES), rows)


def _network(record: Record) -> tuple[str, str]:
    return record["network"], record["dataset"]


def _size(sizes: dict[str, int], file: str) -> str:
    if file not in sizes:
        return NOTHING
    share = "" if file == "float32" else f" ({sizes['float32'] / sizes[file]:.1f}×)"
    return f"{sizes[file] / 1e3:,.0f}{share}"


def runtimes(evidence: Evidence) -> str:
    """What has to be installed for an engine, numpy aside."""
    columns = {
        "run time": lambda r: f"{r['engine']} {r['version']}",
        "wheel": lambda r: f"{r['wheel_bytes'] / 1e6:,.1f} MB",
        "installed": lambda r: f"{r['installed_bytes'] / 1e6:,.1f} MB",
    }
    return table_of(MeasuredNetworks.of(evidence).content["runtimes"], columns)


def first_answers(evidence: Evidence) -> str:
    """Milliseconds from the start of a process to the first answer, and its peak memory."""
    measured = MeasuredNetworks.of(evidence)
    records = measured.content["first_answers"]
    if not records:
        return NOT_MEASURED
    columns = {
        "first answer": lambda r: r["engine"],
        "least": lambda r: f"{1e3 * r['seconds']:,.0f} ms",
        "median": lambda r: f"{1e3 * r['median_seconds']:,.0f} ms",
        "peak memory": lambda r: NOTHING if r["peak_mb"] is None else f"{r['peak_mb']:,.0f} MB",
    }
    return f"{table_of(records, columns)}\n\nOf {measured.content['starts']} processes each."


def accuracies(evidence: Evidence) -> str:
    """Test accuracy of trained networks, engine by engine."""
    records = MeasuredNetworks.of(evidence).content["accuracies"]
    if not records:
        return NOT_MEASURED
    networks = grouped(records, lambda r: (r["network"], r["dataset"], r["weights"]))
    every = dict.fromkeys(record["engine"] for record in records)
    rows = []
    for (network, dataset, weights), mine in networks.items():
        found = {record["engine"]: f"{record['accuracy']:.2f}" for record in mine}
        name = f"{NAMES[network]}, {DATASETS[dataset]}, {weights}"
        rows.append((name, *(found.get(engine, NOTHING) for engine in every)))
    images = f"Percent of {records[0]['images']:,} test images."
    return f"{table(('accuracy', *every), rows)}\n\n{images}"


SECTIONS = {
    "networks-files": files,
    "networks-runtimes": runtimes,
    "networks-first-answers": first_answers,
    "networks-accuracies": accuracies,
}
