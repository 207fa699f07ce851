"""The Moreau envelope λ/2 dist(x, Q)² and the relaxed objective (eq. 9), along runs of eq. 10."""

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryrelax import Binary, GeometricGrowth, PerChannel, Ternary, distance
from binaryrelax_lab.report.drawing import COLOURS, INK, QUIET, SHADE, label, legend, panels, title
from binaryrelax_lab.studies.theory.families import QuadraticFamily
from binaryrelax_lab.studies.theory.iterations import Descent, Method, binary_relax, cosine_rates
from binaryrelax_lab.studies.theory.problems import Quadratic
from binaryrelax_lab.studies.theory.relaxed_objective import least_relaxed, moreau_envelope
from binaryrelax_lab.studies.theory.significant_digits import rounded

FIXED_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
AT_REST = 1e-6  # length of a step, or of a gradient, that counts as none
LOSS, ENVELOPE, SUM = COLOURS["float"], COLOURS["ternary"], COLOURS["binary"]


def envelope() -> dict[str, Any]:
    """Along a run with growing λ, and where eq. 10 goes with each λ held fixed."""
    return {"run": envelope_along_a_run(), "fixed": fixed_strengths()}


def envelope_along_a_run(*, num_weights: int = 20, num_steps: int = 300) -> dict[str, Any]:
    """f, the envelope and their sum at x^k, and f at proj(x^k), while λ grows from 1 to 150."""
    problem, quantizer = Quadratic.random(num_weights, seed=7), Ternary()
    phase_one = num_steps * 4 // 5
    schedule = GeometricGrowth.reaching(150.0, phase_one_steps=phase_one, every=10)
    start = torch.randn(
        num_weights, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    run = binary_relax(problem, quantizer, start, cosine_rates(0.5, num_steps), schedule=schedule)
    records = []
    for step, x in enumerate(run.x):
        strength = schedule(max(step - 1, 0))
        penalty = moreau_envelope(x, quantizer, strength) if step <= phase_one else torch.zeros(())
        records.append(
            {
                "step": step,
                "strength": rounded(strength) if step <= phase_one else None,
                "distance": rounded(distance(x, quantizer)),
                "loss": rounded(problem.value(x)),
                "envelope": rounded(penalty),
                "relaxed": rounded(problem.value(x) + penalty),
                "projected_loss": rounded(problem.value(quantizer.project(x))),
            }
        )
    return {"weights": num_weights, "phase_one": phase_one, "records": records}


def fixed_strengths(
    *, num_members: int = 10, num_starts: int = 20, num_steps: int = 1500, rate: float = 0.5
) -> dict[str, Any]:
    """Where eq. 10 goes when λ does not grow: is it a minimiser of eq. 9?

    y moves until ∇f(x) = 0, so that is the only place to come to rest. The minimum of eq. 9 is
    found by listing the lines: on each, f + λ/2 dist(·, line)² is a quadratic.
    """
    quantizer = Binary(granularity=PerChannel())
    family = QuadraticFamily.random(num_members, 8, condition=10.0, seed=9)
    source = torch.Generator().manual_seed(0)
    starts = torch.randn((num_members, num_starts, 8), generator=source, dtype=torch.float64)
    methods = [
        Method(f"λ = {s:g}", GeometricGrowth(s, 1.0, 1, num_steps + 1)) for s in FIXED_STRENGTHS
    ]
    descent = Descent(family.gradient, quantizer, [rate] * num_steps)
    before = after = starts
    for x, _ in descent.run(methods, starts):
        before, after = after, x
    moved = (after - before).norm(dim=-1)
    slopes = family.gradient(after).norm(dim=-1)
    values = family.value(after)
    square = (after - descent.project(after)).square().sum(-1)
    return {
        "members": num_members,
        "starts": num_members * num_starts,
        "weights": 8,
        "rate": rate,
        "steps": num_steps,
        "by_strength": [
            {
                "strength": strength,
                "at_rest": rounded((moved[i] < AT_REST).double().mean()),
                "critical_of_f": rounded((slopes[i] < AT_REST).double().mean()),
                "relaxed": rounded((values[i] + strength / 2 * square[i]).mean()),
                "least_relaxed": rounded(least_relaxed(family, quantizer, strength).mean()),
            }
            for i, strength in enumerate(FIXED_STRENGTHS)
        ],
    }


def draw_envelope(data: dict[str, Any]) -> Figure:
    """A run with growing λ on the left, λ held fixed on the right."""
    figure, (left, right) = panels(1, 2, size=(13, 5))
    _draw_run(left, data["run"])
    _draw_fixed(right, data["fixed"])
    return figure


def _draw_run(axes: Axes, data: dict[str, Any]) -> None:
    records = data["records"]
    steps = [r["step"] for r in records]
    axes.axvspan(data["phase_one"] + 0.5, steps[-1], color=SHADE, lw=0)
    relaxed = records[: data["phase_one"] + 1]
    curves = (
        ("loss", "f(xᵏ)", LOSS, records, 2.0),
        ("envelope", "λ/2 dist(xᵏ, Q)²", ENVELOPE, relaxed, 2.0),
        ("relaxed", "their sum, eq. 9", SUM, relaxed, 1.4),
    )
    for key, name, colour, shown, width in curves:
        values = [r[key] for r in shown]
        axes.plot([r["step"] for r in shown], values, color=colour, lw=width, label=name)
    axes.set(yscale="log", xlim=(0, steps[-1]))
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    high = axes.get_ylim()[1]
    for x, text in ((data["phase_one"] / 2, "λ from 1 to 150"), (data["phase_one"] + 3, "λ = ∞")):
        axes.annotate(text, (x, high), xytext=(0, -12), textcoords="offset points", color=QUIET)
    title(axes, f"Along a run of BinaryRelax, n = {data['weights']}, ternary")
    label(axes, x="step")
    legend(axes, loc="lower left")


def _draw_fixed(axes: Axes, data: dict[str, Any]) -> None:
    records = data["by_strength"]
    strengths = [r["strength"] for r in records]
    for key, name, colour in (
        ("relaxed", "where eq. 10 is at the end", COLOURS["binary"]),
        ("least_relaxed", "its minimum", COLOURS["float"]),
    ):
        axes.plot(
            strengths, [r[key] for r in records], "-", marker="o", ms=6, lw=2.2, color=colour,
            label=name,
        )  # fmt: skip
    for record in records:
        axes.annotate(
            f"{100 * record['at_rest']:.0f} %", (record["strength"], record["relaxed"]),
            xytext=(0, 9), textcoords="offset points", ha="center", color=INK, size=10.5,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", ylim=(0.05, 14))
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    title(axes, "λ held fixed: f + λ/2 dist², and how many runs come to rest")
    label(axes, x="λ")
    legend(axes, loc="upper left")
