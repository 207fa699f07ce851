"""Section 4 of the paper as measured: the tables of docs/evidence/theory.md."""

from __future__ import annotations

from functools import partial

from binaryrelax_lab.report.figures.evidence import Evidence, Record, grouped
from binaryrelax_lab.report.figures.markdown import Columns, percent, record_table, table, table_of

THEORY = "results/theory"
SHOWN_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
SHOWN_RATES = (1.0, 0.1, 0.003)  # of the quadratics; the picture shows all
LIMIT = "liminf E dist(0, ∂h)²"


def _short(value: float) -> str:
    """Three digits that count, without an exponent where it can be avoided."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _cell(text: str) -> str:
    """Words for a table of Markdown, where a bar ends a cell and stars make italics."""
    for plain, shown in (("||", "‖"), ("|", "\\|"), ("*", "\\*"), ("->", "→")):
        text = text.replace(plain, shown)
    return text.replace(">=", "≥").replace("<=", "≤")


def counterexamples(evidence: Evidence) -> str:
    """Where a statement fails, and on what."""
    records = evidence.read(f"{THEORY}/statements.json", "statements")
    failing = [record for record in records if "counterexample" in record]
    return "\n".join(f"- `{r['label']}`: {_cell(r['counterexample'])}" for r in failing)


def without_noise(evidence: Evidence, text: str) -> str:
    """Figures of the run without noise, as the text asks for them."""
    return text.format(**evidence.read(f"{THEORY}/theorem.json", "without_noise"))


def alpha(evidence: Evidence) -> str:
    """α at the changes of line: one scale for all weights, then layer by layer."""
    data = evidence.read(f"{THEORY}/alpha.json")
    rows = [
        _alphas(f"{r['problem']}, `{r['quantizer']}`", r, "alpha_at_changes")
        for r in data["one_scale"]
    ]
    for record in data["one_scale_per_layer"]:
        name = f"network, each of {len(record['layers'])} layers, `{record['quantizer']}`"
        rows.append(_alphas_of_layers(name, record["layers"], "alpha_at_changes"))
    for record in data["demo"]:
        name = f"{record['recipe']}, each of {len(record['layers'])} layers, all steps"
        rows.append(_alphas_of_layers(name, record["layers"], "alpha"))
    return table(("run", "line changes", "least α", "median", "largest"), rows)


def _alphas(name: str, record: Record, key: str) -> tuple[str, ...]:
    return name, str(record["line_changes"]), *(f"{value:.2g}" for value in record[key])


def _alphas_of_layers(name: str, layers: list[Record], key: str) -> tuple[str, ...]:
    """The least and the largest of all layers; of changes and medians the range."""
    least, median, largest = zip(*(layer[key] for layer in layers), strict=True)
    changes = [layer["line_changes"] for layer in layers]
    ranges = f"{min(changes)} to {max(changes)}", f"{min(median):.2g} to {max(median):.2g}"
    return name, ranges[0], f"{min(least):.2g}", ranges[1], f"{max(largest):.2g}"


def stagnation(evidence: Evidence) -> str:
    """What each method does on the quadratics, by learning rate."""
    records = evidence.read(f"{THEORY}/stagnation.json", "quadratics", "records")
    rows = []
    shown = (record for record in records if record["rate"] in SHOWN_RATES)
    for (kind, rate), mine in grouped(shown, lambda r: (r["set"], r["rate"])).items():
        cells = [f"{percent(r['changed'])} / {r['loss']:.3f}" for r in mine]
        rows.append((kind, f"{rate:g}", f"{mine[0]['steps']:,}", *cells))
    return table(("set", "γ₀ L", "steps", *_methods(records)), rows)


def network(evidence: Evidence) -> str:
    """The same on the network of the demo."""
    data = evidence.read(f"{THEORY}/stagnation.json", "network")
    records = data["records"]
    rows = []
    for rate, mine in grouped(records, lambda r: r["rate"]).items():
        rows.append((f"{rate:g}", *(f"{r['num_changed']:,} / {r['loss']:.3f}" for r in mine)))
    note = (
        f"Of {records[0]['weights']:,} binary weights; {data['steps']} steps of "
        f"{data['batch_size']} images after {data['float_steps']} float ones."
    )
    return f"{table(('learning rate', *_methods(records)), rows)}\n\n{note}"


def _methods(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(record["method"] for record in records))


def minima(evidence: Evidence) -> str:
    """How often each method ends in the best minimizer, with the gain over BinaryConnect."""
    cases = evidence.read(f"{THEORY}/local-minima.json", "cases")
    methods = zip(*(case["methods"] for case in cases), strict=True)
    rows = [(records[0]["method"], *map(_hits, records)) for records in methods]
    return table(("", *(f"{c['name']} ({c['lines']:,})" for c in cases)), rows)


def _hits(record: Record) -> str:
    found = percent(record["best"])
    if "gain" not in record or record["gain_low"] == record["gain_high"]:
        return found
    middle, low, high = (100 * record[key] for key in ("gain", "gain_low", "gain_high"))
    gain = f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{found}, **{gain}**" if low > 0 or high < 0 else f"{found}, {gain}"


def relaxed_minima(evidence: Evidence) -> str:
    """How many local minimizers the relaxed objective has."""
    data = evidence.read(f"{THEORY}/relaxed-minima.json")
    columns = {
        "λ": lambda r: f"{r['strength']:g}",
        f"minimizers of (9), mean of {data['members']}": lambda r: f"{r['mean']:.1f}",
        "range": lambda r: f"{r['least']} to {r['most']}",
    }
    return table_of((r for r in data["by_strength"] if r["strength"] in SHOWN_STRENGTHS), columns)


def metric(evidence: Evidence) -> str:
    """Projections in other metrics."""
    data = evidence.read(f"{THEORY}/remarks.json", "metric")
    both = zip(data["example"]["metrics"], data["metrics"], strict=True)
    columns = {
        "metric": lambda r: r["metric"],
        "projection of (1.2, 0.5)": lambda r: f"({', '.join(f'{x:.3g}' for x in r['point'])})",
        "penalty": lambda r: f"{r['penalty']:.4f}",
        "f there": lambda r: f"{r['loss']:.4f}",
        f"best line found, {data['members']} quadratics": lambda r: percent(r["best"]),
    }
    return table_of((many | one for one, many in both), columns)


def monitor(evidence: Evidence) -> str:
    """What measuring costs in an epoch of the demo."""
    data = evidence.read(f"{THEORY}/monitor.json")
    columns = {
        "run": lambda r: f"{r['recipe']}, `{r['quantizer']}`",
        "an epoch": lambda r: f"{r['epoch_seconds']:.2f} s",
        "`measure()`": lambda r: f"{1000 * r['measure_seconds']:.1f} ms",
        "share": lambda r: f"{r['measure_percent']:.2f} %",
    }
    machine = f"{data['machine']['cpu']}, one thread, torch {data['machine']['torch']}"
    return f"{table_of(data['rows'], columns)}\n\n{machine}."


TABLES: dict[tuple[str, ...], Columns] = {  # by section, file and keys of the records
    ("theory-statements", "statements", "statements"): {
        "statement": lambda r: f"`{r['label']}`",
        "what it says": lambda r: _cell(r["says"]),
        "test": lambda r: f"`{r['test'].split('::')[1]}`",
        "cases": lambda r: f"{r['cases']:,}",
        "result": lambda r: r["result"] if r["result"] == "holds" else f"**{r['result']}**",
    },
    ("theory-theorem", "theorem", "center_in_q"): {
        "σ, L": lambda r: f"{r['sigma']:g}, {r['L']:g}",
        "line changes a run": lambda r: " to ".join(map(str, r["line_changes"])),
        "α": lambda r: " … ".join(f"{end:.2g}" for end in r["alpha"]),
        "γ₀ < α̲/2L": lambda r: f"{r['first_step_size']:g} < {r['largest_allowed_step']:.2g}",
        "E‖xᵏ⁺¹ − xᵏ‖²": lambda r: f"{r['movement_first']:.1e} → {r['movement_tail']:.1e}",
        LIMIT: lambda r: _short(r["limit_inferior"]),
        "bound": lambda r: _short(r["bound"]),
        "holds": lambda r: "yes" if r["limit_inferior"] <= r["bound"] else "**no**",
    },
    ("theory-elsewhere", "theorem", "center_not_in_q"): {
        "σ, L": lambda r: f"{r['sigma']:g}, {r['L']:g}",
        "line changes a run": lambda r: "{:,} to {:,} of {:,}".format(
            *r["line_changes"], r["steps"]
        ),
        "least α": lambda r: f"{r['alpha'][0]:.1e}",
        "E‖xᵏ⁺¹ − xᵏ‖²": lambda r: f"{r['movement_first']:.1f} → {r['movement_tail']:.1f}",
        LIMIT: lambda r: _short(r["limit_inferior"]),
    },
    ("theory-fixed", "envelope", "fixed", "by_strength"): {
        "λ": lambda r: f"{r['strength']:g}",
        "runs at rest": lambda r: percent(r["at_rest"]),
        "runs with ∇f(x) = 0": lambda r: percent(r["critical_of_f"]),
        "(9) at the end": lambda r: _short(r["relaxed"]),
        "minimum of (9)": lambda r: _short(r["least_relaxed"]),
    },
    ("theory-hopf-lax", "hamilton-jacobi", "refinement"): {
        "grid points": lambda r: str(r["points"]),
        "from dist(x, {−1, 0, 1})²/0.2": lambda r: f"{r['levels']:.4f}",
        "from cos 3x + x²/4": lambda r: f"{r['smooth']:.4f}",
    },
    ("theory-bregman", "remarks", "bregman", "records"): {
        "iteration": lambda r: r["method"],
        "‖Ax − b‖/‖b‖": lambda r: _short(r["residual"]),
        "relative error of x": lambda r: _short(r["error"]),
        "dist(x, Q)": lambda r: _short(r["distance"]),
        "‖x‖₁": lambda r: _short(r["sum_of_magnitudes"]),
    },
}
SECTIONS = {
    **{
        section: record_table(f"{THEORY}/{name}.json", *keys, columns=columns)
        for (section, name, *keys), columns in TABLES.items()
    },
    "theory-counterexamples": counterexamples,
    "theory-monitor": monitor,
    "theory-changes-without-noise": partial(
        without_noise,
        text="{line_changes:,} changes of line in {steps:,} steps, {line_changes_in_the_tail} of "
        "them in the last fifth",
    ),
    "theory-movement-without-noise": partial(without_noise, text="{movement_tail:.1f}"),
    "theory-limit-without-noise": partial(without_noise, text="{limit_inferior:.4f}"),
    "theory-alpha": alpha,
    "theory-stagnation": stagnation,
    "theory-network": network,
    "theory-minima": minima,
    "theory-relaxed-minima": relaxed_minima,
    "theory-metric": metric,
}
