"""The benchmark of training steps."""

from __future__ import annotations

from typing import Any

from figures.common import BENCHMARKS, read, table

STEP = BENCHMARKS / "step.json"
VARIANTS = {
    "float": "float",
    "binary": "BinaryRelax, 1 bit",
    "ternary": "BinaryRelax, ternary (TWN)",
    "ternary-exact": "BinaryRelax, exact ternary",
}


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


SECTIONS = {
    "step-alone": step_alone,
    "step-side-by-side": step_side_by_side,
    "step-optimizer": step_optimizer,
    "step-long-row": step_long_row,
    "step-profile": step_profile,
}
