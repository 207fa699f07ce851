"""Whole packed networks beside the run times that a user would pick instead, int8 above all."""

from __future__ import annotations

from binaryrelax_lab.recipes import NETWORK_NAMES
from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import NOTHING, table

NETWORKS = "benchmarks/results/networks.json"
TORCH, OURS = "torch float32", "packed, fast, kernel threads set"
INTEGERS = ("ONNX Runtime int8", "OpenVINO int8")
WEIGHTS = {"Binary()": "1 bit", "Ternary()": "ternary"}


def summary(evidence: Evidence) -> str:
    """One image: ours beside torch and both int8 engines, in milliseconds."""
    content = evidence.read(NETWORKS)
    headings = ("one image, ms", TORCH, "ours, fast", *INTEGERS)
    rows = []
    for (_, batch), records in _cases(content).items():
        if batch == 1:
            by_engine = {record["engine"]: record for record in records}
            cells = (_milliseconds(by_engine.get(e)) for e in (TORCH, OURS, *INTEGERS))
            rows.append((_title(records[0]), *cells))
    return f"{table(headings, rows)}\n\n{_machine(content)}"


def all_engines(evidence: Evidence) -> str:
    """Every engine and batch size: time, how many times faster than torch, error of the output."""
    content = evidence.read(NETWORKS)
    tables = []
    for batch, cases in grouped(list(_cases(content).items()), lambda case: case[0][1]).items():
        networks = [{r["engine"]: r for r in records} for _, records in cases]
        titles = (_title(records[0]) for _, records in cases)
        engines = dict.fromkeys(engine for network in networks for engine in network)
        rows = [(e, *(_beside_torch(network, e) for network in networks)) for e in engines]
        noun = "image" if batch == 1 else "images"
        tables.append(table((f"{batch} {noun}", *titles), rows))
    remark = (
        "In brackets: times faster than torch, and the error of the output relative to float64."
    )
    return "\n\n".join((*tables, f"{_machine(content)} {remark}"))


def behind(evidence: Evidence) -> str:
    """How many times faster the better int8 engine is than ours, for one image, per network."""
    words = []
    for (_, batch), records in _cases(evidence.read(NETWORKS)).items():
        seconds = {record["engine"]: record["seconds"] for record in records}
        found = [seconds[engine] for engine in INTEGERS if engine in seconds]
        if batch == 1 and found:
            words.append(f"{seconds[OURS] / min(found):.1f}× ({_title(records[0])})")
    return ", ".join(words) or NOTHING


def _cases(content: Record) -> dict[tuple[str, int], list[Record]]:
    return grouped(content["records"], lambda r: (r["file"], r["batch"]))


def _title(record: Record) -> str:
    return f"{NETWORK_NAMES[record['network']]}, {WEIGHTS[record['weights']]}"


def _milliseconds(record: Record | None) -> str:
    return NOTHING if record is None else f"{1e3 * record['seconds']:.2f}"


def _beside_torch(network: dict[str, Record], engine: str) -> str:
    if engine not in network:
        return NOTHING
    record, base = network[engine], network[TORCH]["seconds"]
    ratio = f"{base / record['seconds']:.1f}×"
    return f"{_milliseconds(record)} ms ({ratio}, {record['error']:.0e})"


def _machine(content: Record) -> str:
    machine = content["machine"]
    engines = ", ".join(f"{engine} {version}" for engine, version in content["engines"].items())
    shared = " Others used the machine meanwhile." if content["machine_was_shared"] else ""
    return (
        f"{machine['cpu']} ({content['native']}), {machine['threads']} threads, torch "
        f"{machine['torch']}{f', {engines}' if engines else ''}; the least of "
        f"{content['repetitions']} repetitions taken in turns.{shared}"
    )


SECTIONS = {"networks-summary": summary, "networks": all_engines, "networks-behind": behind}
