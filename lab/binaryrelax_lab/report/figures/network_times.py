"""Whole packed networks beside the run times that a user would pick instead, int8 above all."""

from __future__ import annotations

from binaryrelax_lab.recipes import NETWORK_NAMES
from binaryrelax_lab.report.figures.evidence import Evidence, Record
from binaryrelax_lab.report.figures.markdown import NOTHING, table

NETWORKS = "benchmarks/results/networks.json"
TORCH, OURS = "torch float32", "packed, fast, kernel threads set"
INTEGERS = ("ONNX Runtime int8", "OpenVINO int8")


def summary(evidence: Evidence) -> str:
    """One image: ours beside torch and both int8 engines, in milliseconds."""
    content = evidence.read(NETWORKS)
    columns = {TORCH: TORCH, "ours, fast": OURS} | {engine: engine for engine in INTEGERS}
    rows = [
        (title, *(_milliseconds(network.get(engine)) for engine in columns.values()))
        for title, network in _networks(content, batch=1).items()
    ]
    return f"{table(('one image, ms', *columns), rows)}\n\n{_machine(content)}"


def all_engines(evidence: Evidence) -> str:
    """Every engine and batch size: time, how many times faster than torch, error of the output."""
    content = evidence.read(NETWORKS)
    tables = []
    for batch in dict.fromkeys(record["batch"] for record in content["records"]):
        networks = _networks(content, batch)
        engines = dict.fromkeys(engine for network in networks.values() for engine in network)
        rows = [_engine_row(engine, [*networks.values()]) for engine in engines]
        noun = "one image" if batch == 1 else f"{batch} images"
        tables.append(table((f"{noun}, ms (× torch)", *networks, "error"), rows))
    remark = "Error is that of the output, relative to float64: the largest of the networks."
    return "\n\n".join((*tables, f"{_machine(content)} {remark}"))


def _engine_row(engine: str, networks: list[dict[str, Record]]) -> list[str]:
    errors = [network[engine]["error"] for network in networks if engine in network]
    return [engine, *(_beside_torch(network, engine) for network in networks), f"{max(errors):.0e}"]


def behind(evidence: Evidence) -> str:
    """How many times faster the better int8 engine is than ours, for one image, per network."""
    ratios = {
        title: 1 / ratio
        for title, network in _networks(evidence.read(NETWORKS), batch=1).items()
        if (ratio := _beside_int8(network)) is not None
    }
    return ", ".join(f"{ratio:.1f}× ({title})" for title, ratio in ratios.items()) or NOTHING


def beside_int8(evidence: Evidence, network: str) -> list[str]:
    """One image of a network: times faster than the better int8 engine; 1 bit, then ternary."""
    networks = _networks(evidence.read(NETWORKS), batch=1)
    titles = (f"{network}, {weights}" for weights in ("1 bit", "ternary"))
    ratios = (_beside_int8(networks.get(title, {})) for title in titles)
    return [NOTHING if ratio is None else f"{ratio:.1f}×" for ratio in ratios]


def _networks(content: Record, batch: int) -> dict[str, dict[str, Record]]:
    """By the title of a network and by engine, what was measured at a batch size."""
    found: dict[str, dict[str, Record]] = {}
    for record in content["records"]:
        if record["batch"] == batch:
            title = f"{NETWORK_NAMES[record['network']]}, {record['weights']}"
            found.setdefault(title, {})[record["engine"]] = record
    return found


def _beside_int8(network: dict[str, Record]) -> float | None:
    """How many times faster ours is than the better int8 engine; below 1, it is slower."""
    rivals = [network[engine]["seconds"] for engine in INTEGERS if engine in network]
    return min(rivals) / network[OURS]["seconds"] if rivals else None


def _milliseconds(record: Record | None) -> str:
    return NOTHING if record is None else f"{1e3 * record['seconds']:.2f}"


def _beside_torch(network: dict[str, Record], engine: str) -> str:
    if engine not in network:
        return NOTHING
    ratio = network[TORCH]["seconds"] / network[engine]["seconds"]
    return f"{_milliseconds(network[engine])} ({ratio:.1f}×)"


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
