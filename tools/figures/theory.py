"""Section 4 of the paper as measured: the tables of docs/theory.md."""

from __future__ import annotations

from typing import Any

from figures.common import RESULTS, read, table

THEORY = RESULTS / "theory"


def numbers(name: str) -> dict[str, Any]:
    """One file that `binaryrelax theory` has written."""
    return read(THEORY / f"{name}.json")


def share(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.1f} %"


def short(value: float) -> str:
    """Three digits that count, without an exponent where it can be avoided."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cell(text: str) -> str:
    """Words for a table of Markdown, where a bar ends a cell and stars make italics."""
    for plain, shown in (("||", "‖"), ("|", "\\|"), ("*", "\\*"), ("->", "→")):
        text = text.replace(plain, shown)
    return text.replace(">=", "≥").replace("<=", "≤")


def statements() -> str:
    """Every statement with its test, its cases and its result."""
    rows = []
    for row in numbers("statements")["statements"]:
        test = row["test"].split("::")[1]
        result = row["result"] if row["result"] == "holds" else f"**{row['result']}**"
        rows.append(
            (f"`{row['label']}`", cell(row["says"]), f"`{test}`", f"{row['cases']:,}", result)
        )
    return table(("statement", "what it says", "test", "cases", "result"), rows)


def counterexamples() -> str:
    """Where a statement fails, and on what."""
    rows = [row for row in numbers("statements")["statements"] if "counterexample" in row]
    return "\n".join(f"- `{row['label']}`: {cell(row['counterexample'])}" for row in rows)


def theorem() -> str:
    """Both conclusions against their right-hand sides, where the minimum is in Q."""
    rows = []
    for r in numbers("theorem")["center_in_q"]:
        low, high = r["alpha"]
        changes = " to ".join(str(n) for n in r["line_changes"])
        rows.append(
            (
                f"{r['sigma']:g}, {r['L']:g}",
                changes,
                f"{low:.2g} … {high:.2g}",
                f"{r['first_step_size']:g} < {r['largest_allowed_step']:.2g}",
                f"{r['movement_first']:.1e} → {r['movement_tail']:.1e}",
                short(r["limit_inferior"]),
                short(r["bound"]),
                "yes" if r["limit_inferior"] <= r["bound"] else "**no**",
            )
        )
    headings = ("σ, L", "line changes a run", "α", "γ₀ < α̲/2L", "E‖xᵏ⁺¹ − xᵏ‖²")
    return table((*headings, "liminf E dist(0, ∂h)²", "bound", "holds"), rows)


def elsewhere() -> str:
    """The same where the minimum is not in Q, and the example without noise."""
    data = numbers("theorem")
    rows = []
    for r in data["center_not_in_q"]:
        rows.append(
            (
                f"{r['sigma']:g}, {r['L']:g}",
                " to ".join(f"{n:,}" for n in r["line_changes"]) + f" of {r['steps']:,}",
                f"{r['alpha'][0]:.1e}",
                f"{r['movement_first']:.1f} → {r['movement_tail']:.1f}",
                short(r["limit_inferior"]),
            )
        )
    bare = data["without_noise"]
    note = (
        "Without noise, f(x) = ‖x − (2, 1)‖²/2 over two binary weights: "
        f"{bare['line_changes']:,} changes of line in {bare['steps']:,} steps, "
        f"{bare['line_changes_in_the_tail']} of them in the last fifth; ‖xᵏ⁺¹ − xᵏ‖² still reaches "
        f"{bare['movement_tail']:.1f} there, and dist(0, ∂h)² never falls below "
        f"{bare['limit_inferior']:.2f} there, while the bound with σ = 0 is 0."
    )
    headings = ("σ, L", "line changes a run", "least α", "E‖xᵏ⁺¹ − xᵏ‖²", "liminf E dist(0, ∂h)²")
    return f"{table(headings, rows)}\n\n{note}"


def alpha() -> str:
    """α at the changes of line: one scale for all weights, then layer by layer."""
    data = numbers("alpha")
    rows = [
        (
            f"{r['problem']}, `{r['quantizer']}`",
            f"{r['line_changes']}",
            *least_to_most(r["alpha_at_changes"]),
        )
        for r in data["one_scale"]
    ]
    for record in data["one_scale_per_layer"]:
        for number, layer in enumerate(record["layers"], 1):
            name = f"network, layer {number} alone, `{record['quantizer']}`"
            rows.append(
                (name, f"{layer['line_changes']}", *least_to_most(layer["alpha_at_changes"]))
            )
    for record in data["demo"]:
        for layer in record["layers"]:
            name = f"{record['recipe']}, {layer['name'].removesuffix('.weight')}, all steps"
            rows.append((name, f"{layer['line_changes']}", *least_to_most(layer["alpha"])))
    return table(("run", "line changes", "least α", "median", "largest"), rows)


def least_to_most(values: list[float]) -> list[str]:
    """Least, median and largest."""
    return [f"{value:.2g}" for value in values]


def stagnation() -> str:
    """What each method does on the quadratics, by learning rate."""
    records = numbers("stagnation")["quadratics"]["records"]
    rows = []
    for kind, rate in dict.fromkeys((r["set"], r["rate"]) for r in records):
        mine = [r for r in records if (r["set"], r["rate"]) == (kind, rate)]
        cells = [f"{share(r['changed'])} / {r['loss']:.3f}" for r in mine]
        rows.append((kind, f"{rate:g}", f"{mine[0]['steps']:,}", *cells))
    methods = list(dict.fromkeys(r["method"] for r in records))
    return table(("set", "γ₀ L", "steps", *methods), rows)


def network() -> str:
    """The same on the network of the demo."""
    data = numbers("stagnation")["network"]
    rows = []
    for rate in dict.fromkeys(r["rate"] for r in data["records"]):
        mine = [r for r in data["records"] if r["rate"] == rate]
        rows.append((f"{rate:g}", *(f"{r['num_changed']:,} / {r['loss']:.3f}" for r in mine)))
    methods = list(dict.fromkeys(r["method"] for r in data["records"]))
    note = (
        f"\n\nOf {data['records'][0]['weights']:,} binary weights; {data['steps']} steps of "
        f"{data['batch_size']} images after {data['float_steps']} float ones."
    )
    return table(("learning rate", *methods), rows) + note


def minima() -> str:
    """How often each method ends in the best minimizer, with the gain over BinaryConnect."""
    cases = numbers("local-minima")["cases"]
    rows = []
    for place, record in enumerate(cases[0]["methods"]):
        cells = [_hits(case["methods"][place]) for case in cases]
        rows.append((record["method"], *cells))
    return table(("", *(f"{c['name']} ({c['lines']:,})" for c in cases)), rows)


def _hits(record: dict[str, Any]) -> str:
    found = share(record["best"])
    if "gain" not in record or record["gain_low"] == record["gain_high"]:
        return found
    low, high = (100 * record[key] for key in ("gain_low", "gain_high"))
    clear = low > 0 or high < 0
    gain = f"{100 * record['gain']:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{found}, **{gain}**" if clear else f"{found}, {gain}"


def relaxed_minima() -> str:
    """How many local minimizers the relaxed objective has."""
    data = numbers("relaxed-minima")
    wanted = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
    records = [r for r in data["by_strength"] if r["strength"] in wanted]
    rows = [
        (f"{r['strength']:g}", f"{r['mean']:.1f}", f"{r['least']} to {r['most']}") for r in records
    ]
    return table(("λ", f"minimizers of (9), mean of {data['members']}", "range"), rows)


def fixed() -> str:
    """Eq. 10 with λ held fixed."""
    data = numbers("envelope")["fixed"]
    rows = [
        (
            f"{r['strength']:g}",
            share(r["at_rest"]),
            share(r["critical_of_f"]),
            short(r["relaxed"]),
            short(r["least_relaxed"]),
        )
        for r in data["by_strength"]
    ]
    headings = ("λ", "runs at rest", "runs with ∇f(x) = 0", "(9) at the end", "minimum of (9)")
    return table(headings, rows)


def hopf_lax() -> str:
    """How the two solutions of the Hamilton-Jacobi equation differ."""
    rows = [
        (f"{r['points']}", f"{r['levels']:.4f}", f"{r['smooth']:.4f}")
        for r in numbers("hamilton-jacobi")["refinement"]
    ]
    return table(("grid points", "from dist(x, {−1, 0, 1})²/0.2", "from cos 3x + x²/4"), rows)


def metric() -> str:
    """Projections in other metrics."""
    data = numbers("remarks")["metric"]
    rows = []
    for one, many in zip(data["example"]["metrics"], data["metrics"], strict=True):
        point = ", ".join(f"{value:.3g}" for value in one["point"])
        rows.append(
            (
                one["metric"],
                f"({point})",
                f"{one['penalty']:.4f}",
                f"{one['loss']:.4f}",
                share(many["best"]),
            )
        )
    headings = ("metric", "projection of (1.2, 0.5)", "penalty", "f there")
    return table((*headings, f"best line found, {data['members']} quadratics"), rows)


def bregman() -> str:
    """Linearized Bregman beside eq. 10 on the same equations."""
    rows = [
        (
            r["method"],
            short(r["residual"]),
            short(r["error"]),
            short(r["distance"]),
            short(r["sum_of_magnitudes"]),
        )
        for r in numbers("remarks")["bregman"]["records"]
    ]
    headings = ("iteration", "‖Ax − b‖/‖b‖", "relative error of x", "dist(x, Q)", "‖x‖₁")
    return table(headings, rows)


def monitor() -> str:
    """What measuring costs in an epoch of the demo."""
    data = numbers("monitor")
    rows = [
        (
            f"{r['recipe']}, `{r['quantizer']}`",
            f"{r['epoch_seconds']:.2f} s",
            f"{1000 * r['measure_seconds']:.1f} ms",
            f"{r['measure_percent']:.2f} %",
        )
        for r in data["rows"]
    ]
    machine = f"{data['machine']['cpu']}, one thread, torch {data['machine']['torch']}"
    return f"{table(('run', 'an epoch', '`measure()`', 'share'), rows)}\n\n{machine}."


SECTIONS = {
    "theory-statements": statements,
    "theory-counterexamples": counterexamples,
    "theory-monitor": monitor,
    "theory-theorem": theorem,
    "theory-elsewhere": elsewhere,
    "theory-alpha": alpha,
    "theory-stagnation": stagnation,
    "theory-network": network,
    "theory-minima": minima,
    "theory-relaxed-minima": relaxed_minima,
    "theory-fixed": fixed,
    "theory-hopf-lax": hopf_lax,
    "theory-metric": metric,
    "theory-bregman": bregman,
}
