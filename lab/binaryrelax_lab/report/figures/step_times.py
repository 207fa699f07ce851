"""The benchmarks of training steps, and of convolutions of few channels within them."""

from __future__ import annotations

from binaryrelax_lab.recipes import NETWORK_NAMES
from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import NOT_MEASURED, percent, table, table_of

STEP, CONVOLUTIONS = (f"benchmarks/results/{name}.json" for name in ("step", "convolutions"))
VARIANTS = {
    "float": "float",
    "binary": "BinaryRelax, 1 bit",
    "ternary": "BinaryRelax, ternary (TWN)",
    "ternary-exact": "BinaryRelax, exact ternary",
}


def alone(evidence: Evidence) -> str:
    """Milliseconds of a whole training step, and the share that BinaryRelax takes of it."""
    content = evidence.read(STEP)
    eager = {record["network"]: record for record in content["eager"]}
    rows = []
    for network, variants in _by_network(content["alone"]).items():
        times = [_time_and_share(variants.get(variant)) for variant in VARIANTS]
        others = [f"{eager[network][f'{who}_milliseconds']:.1f} ms" for who in ("plain", "parq")]
        rows.append((network, *times, *others))
    headings = ("", *VARIANTS.values(), "plain eager PyTorch", "eager with PARQ")
    where = content["environment"]
    return (
        f"{table(headings, rows)}\n\n{where['device']}, torch {where['torch']}, "
        f"{where['precision']}, batch {content['batch_size']}; {_rounds(content)}"
    )


def _by_network(records: list[Record]) -> dict[str, dict[str, Record]]:
    networks = grouped(records, lambda r: r["network"]).items()
    return {name: {record["variant"]: record for record in mine} for name, mine in networks}


def _time_and_share(record: Record | None) -> str:
    if record is None:
        return "-"
    share = "" if record["variant"] == "float" else f" ({percent(record['share'])})"
    return f"{record['milliseconds']:.2f} ms{share}"


def _rounds(content: Record) -> str:
    steps = f"{content['rounds']} interleaved rounds of {content['steps_a_round']} steps"
    return f"medians of {steps}."


def side_by_side(evidence: Evidence) -> str:
    """Several networks at once."""
    record = evidence.read(STEP)["side_by_side"]
    return (
        f"{record['networks']} times {record['network']} side by side, a CUDA graph and a stream "
        f"each: {record['milliseconds']:.2f} ms per step and network."
    )


def optimizer(evidence: Evidence) -> str:
    """``optimizer.step()`` in eager mode."""
    record = evidence.read(STEP)["optimizer_step"]
    base = record["fused SGD"]
    names = [name for name in record if name not in ("network", "fused SGD", "note")]
    rows = [(name, f"{record[name]:.2f} ms", f"{record[name] / base:.1f}×") for name in names]
    shown = table(
        (f"`optimizer.step()`, {record['network']}", "eager", "of fused SGD"),
        [("fused SGD", f"{base:.2f} ms", "1"), *rows],
    )
    return f"{shown}\n\nThis table: {record['note']}." if "note" in record else shown


def long_row(evidence: Evidence) -> str:
    """One tensor of 11 million weights."""
    record = evidence.read(STEP)["long_row"]
    times = {name: value for name, value in record.items() if name != "weights"}
    rows = [(name, f"{1000 * value:,.0f} µs") for name, value in times.items()]
    return table((f"{record['weights']:,} weights in one tensor, inside a CUDA graph", ""), rows)


def profile(evidence: Evidence) -> str:
    """Where the time of a step goes."""
    return profile_tables(evidence.read(STEP))


def profile_tables(content: Record) -> str:
    """A table per network: the parts of a step of 1 bit, and what exact ternary needs."""
    measured = content.get("profile")
    if measured is None:
        return NOT_MEASURED
    networks = _by_network(measured["records"]).items()
    tables = [_profile_table(name, n["binary"], n["ternary-exact"]) for name, n in networks]
    where = content["environment"]
    line = (
        f"{where['device']}, torch {where['torch']}: "
        f"{measured['bytes_per_second'] / 1e12:.2f} TB/s in a copy of 1 GiB, "
        f"{measured['operations_per_second'] / 1e12:,.0f} TFLOP/s in a bf16 product of 8192 × 8192 "
        f"matrices; means of {measured['steps']} profiled steps."
    )
    return "\n\n".join([*tables, line])


def _profile_table(network: str, binary: Record, ternary: Record) -> str:
    """The parts of one network's step."""
    wall, surplus = binary["wall_microseconds"], binary["surplus_microseconds"]
    idle = {"microseconds": binary["idle_microseconds"], "floor_microseconds": None}
    update = next(part for part in ternary["kinds"] if part["kind"] == "optimizer and relaxation")
    exact = "*optimizer and relaxation, exact ternary*"
    rows = [
        *(_profile_row(part["kind"], part, wall) for part in binary["kinds"]),
        _profile_row("idle between kernels", idle, wall),
        _profile_row(exact, update, ternary["wall_microseconds"]),
    ]
    title = f"{network}, 1 bit: {wall:,.0f} µs, {binary['kernels']:.0f} kernels and copies"
    shown = table((title, "time", "share", "at least", "floor", "time / floor"), rows)
    more = f"Under the profiler, kernels add up to {surplus:,.0f} µs more than the step."
    return f"{shown}\n\n{more}" if surplus else shown


def _profile_row(label: str, part: Record, wall: float) -> tuple[str, ...]:
    """Time, share of the step, what must be done, the floor, and how far above it."""
    time, floor = part["microseconds"], part["floor_microseconds"]
    cells = (label, f"{time:,.1f} µs", percent(time / wall))
    if floor is None:
        return (*cells, "-", "-", "-")
    work = f"{part['bytes'] / 1e6:,.1f} MB"
    if part["operations"]:
        work += f", {part['operations'] / 1e9:,.1f} GFLOP"
    return (*cells, work, f"{floor:,.1f} µs", f"{time / floor:.1f}")


def convolution_layers(evidence: Evidence) -> str:
    """Microseconds of each product of a layer."""
    content = evidence.read(CONVOLUTIONS)
    rows = []
    for layer in content["layers"]:
        times = [product["microseconds"] for product in layer["products"]]
        shape = f"{layer['channels']} channels, {layer['width']} × {layer['width']}"
        rows.append((shape, *(f"{t['cudnn']:.1f} → {t['ours']:.1f} µs" for t in times)))
    products = [product["product"] for product in content["layers"][0]["products"]]
    return table((f"batch {content['batch_size']}: cuDNN → ours", *products), rows)


def convolution_networks(evidence: Evidence) -> str:
    """Milliseconds of a training step, with cuDNN's and with our convolutions."""
    content = evidence.read(CONVOLUTIONS)
    columns = {
        "a training step": _which_networks,
        "cuDNN": lambda r: f"{r['milliseconds']['cudnn']:.2f} ms",
        "ours": lambda r: f"{r['milliseconds']['ours']:.2f} ms",
        "faster": lambda r: f"{r['milliseconds']['cudnn'] / r['milliseconds']['ours']:.2f}×",
    }
    where = f"{content['environment']['device']}, torch {content['environment']['torch']}, bf16"
    return f"{table_of(content['networks'], columns)}\n\n{where}; {_rounds(content)}"


def _which_networks(record: Record) -> str:
    count = record["networks"]
    words = "alone" if count == 1 else f"{count} side by side, a step of each"
    return f"{NETWORK_NAMES[record['network']]}, {words}"


SECTIONS = {
    "step-alone": alone,
    "step-side-by-side": side_by_side,
    "step-optimizer": optimizer,
    "step-long-row": long_row,
    "step-profile": profile,
    "convolution-layers": convolution_layers,
    "convolution-networks": convolution_networks,
}
