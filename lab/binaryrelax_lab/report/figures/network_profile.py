"""The native runtime layer by layer, beside what one core could multiply at most."""

from __future__ import annotations

from binaryrelax_lab.report.figures.evidence import Evidence, Record
from binaryrelax_lab.report.figures.markdown import percent, table
from binaryrelax_lab.report.figures.measured_networks import (
    ONE_IMAGE,
    MeasuredNetworks,
    Title,
    best,
    ours,
)
from binaryrelax_lab.report.figures.network_times import ratio_text

PROFILE = "benchmarks/results/profile.json"
NOISE = 0.005  # of the whole; shorter steps without products are told together


def layers(evidence: Evidence) -> str:
    """A table for each network: work, time, speed and share of the peak, layer by layer."""
    content = evidence.read(PROFILE)
    return "\n\n".join((*map(_table, content["networks"]), _machine(content)))


def _table(network: Record) -> str:
    peak, whole = network["int8_peak"], sum(step["seconds"] for step in network["steps"])
    own = [s for s in network["steps"] if s["macs"] or s["seconds"] > NOISE * whole]
    rest = sum(step["seconds"] for step in network["steps"] if step not in own)
    total = {"name": "**all**", "macs": sum(s["macs"] for s in own), "seconds": whole}
    rows = [_row(step, peak) for step in own]
    rows += [_row({"name": "all else", "macs": 0, "seconds": rest}, peak), _row(total, peak)]
    headings = ("million multiply-additions", "time", "10⁹ a second", "of the peak")
    return table((f"{Title(network['network'], network['side'])}", *headings), rows)


def _row(step: Record, peak: float) -> tuple[str, ...]:
    name = step["name"].replace("value 0:", "image:")
    time = f"{1e6 * step['seconds']:,.1f} µs"
    if not step["macs"]:
        return name, "", time, "", ""
    rate = step["macs"] / step["seconds"]
    return name, f"{step['macs'] / 1e6:,.1f}", time, f"{rate / 1e9:,.0f}", percent(rate / peak, 0)


def _machine(content: Record) -> str:
    shared = " Others used the machine meanwhile." if content["machine_was_shared"] else ""
    return (
        f"{content['machine']['cpu']} ({content['native']}), one thread, {content['weights']} "
        f"weights, mode `fast`; the least of {content['repetitions']} times.{shared}"
    )


def peak(evidence: Evidence) -> str:
    """The int8 peak of a core."""
    content = evidence.read(PROFILE)
    best_peak = max(network["int8_peak"] for network in content["networks"])
    return f"{best_peak / 1e9:,.0f} · 10⁹ multiply-additions a second ({content['native']})"


def floors(evidence: Evidence) -> str:
    """A network at the peak, in our runtime and in the best int8 engine."""
    content, measured = evidence.read(PROFILE), MeasuredNetworks.of(evidence)
    threads = measured.content["machine"]["threads"]
    times = measured.times(ONE_IMAGE)
    rows = []
    for network in content["networks"]:
        title = Title(network["network"], network["side"])
        engines = times.get(title, {})
        macs = sum(step["macs"] for step in network["steps"])
        floor = macs / network["int8_peak"] / threads
        mine, rival = engines.get(ours("fast", "ternary")), best(engines, "int8")
        if mine is None or rival is None:
            continue
        seconds = floor, mine["seconds"], engines[rival]["seconds"]
        share = [percent(floor / s, 0) for s in seconds[1:]]
        bound = ratio_text(seconds[2] / floor)
        rows.append(
            (
                str(title),
                f"{macs / 1e6:,.0f}",
                *(f"{1e3 * s:.2f} ms" for s in seconds),
                *share,
                bound,
            )
        )
    headings = ("one image", "million multiply-additions", f"{threads} cores at the peak", "ours")
    more = (
        "best int8 engine",
        "ours, of the peak",
        "it, of the peak",
        "most that all products could win",
    )
    return table((*headings, *more), rows)


SECTIONS = {"profile-layers": layers, "profile-peak": peak, "profile-floors": floors}
