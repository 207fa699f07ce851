"""What the runs on CIFAR-10 say: the tables and answers of docs/findings.md."""

from __future__ import annotations

from statistics import stdev
from typing import Any

from binaryrelax.lab.recipes import METHOD_NAMES, find_recipe
from binaryrelax.lab.recipes.recipe import TUNED
from binaryrelax.lab.report.runs import FinishedRun
from figures.common import RESULTS, read, table
from figures.evidence import (
    BITS,
    LATE_EPOCHS,
    NETWORKS,
    SCHEDULES,
    all_runs,
    best,
    differences,
    gain,
    last,
    late,
    runs_of,
    spread,
    verdict,
)

PAPER_METHODS = ("float", "bwn", "binary", "twn", "ternary")
HELD_OUT = "+held_out=5000@100"
DECAYS = {"": "1e-4", "+weight_decay=3e-4": "3e-4"}


def rivals() -> str:
    """BinaryRelax against BinaryConnect, everything else equal."""
    pairs = {}
    for name, network, end in settings():
        for bits, (baseline, relaxed) in BITS.items():
            ours, theirs = (f"{network}-{method}{end}" for method in (relaxed, baseline))
            pairs[f"{name}, {bits}"] = ours, theirs
    return compared(pairs, "BinaryRelax", "BinaryConnect")


def settings() -> list[tuple[str, str, str]]:
    """Networks by schedules: in words, and how recipes of both begin and end."""
    return [
        (f"{name}, {schedule}", f"cifar10-{network}", end)
        for network, name in NETWORKS.items()
        for end, schedule in SCHEDULES.items()
    ]


def compared(pairs: dict[str, tuple[str, str]], ours: str, theirs: str) -> str:
    """A row for each pair of recipes that share seeds, with an answer."""
    rows = []
    for name, recipes in pairs.items():
        gains = [differences(*recipes, figure) for figure in (last, late, best)]
        if gains[0]:
            ends = [spread(map(last, runs_of(recipe).values())) for recipe in reversed(recipes)]
            answers = ", ".join(map(verdict, gains))
            rows.append((name, *ends, *map(gain, gains), answers))
    if not rows:
        return "Not run yet."
    ends = f"{theirs}, last", f"{ours}, last"
    gains = "gain, last epoch", f"gain, mean of last {LATE_EPOCHS}", "gain, best of Phase II"
    return table(("", *ends, *gains, f"{ours} ahead?"), rows)


def swing(run: FinishedRun) -> float:
    """The standard deviation of the accuracy over the last epochs."""
    return stdev(run.accuracies[-LATE_EPOCHS:])


def last_and_best() -> str:
    """By how much the best epoch of Phase II flatters, for ResNet-20."""
    rows = []
    for end, schedule in (*SCHEDULES.items(), (TUNED, "annealed, tuned")):
        for method in PAPER_METHODS:
            runs = runs_of(f"cifar10-resnet20-{method}{end}").values()
            if runs:
                gaps = spread(best(run) - last(run) for run in runs)
                figures = spread(map(last, runs)), gaps, spread(map(swing, runs))
                rows.append((schedule, METHOD_NAMES[method], *figures, str(len(runs))))
    headings = ("schedule", "ResNet-20", "last", "best of Phase II − last")
    return table((*headings, f"deviation over the last {LATE_EPOCHS} epochs", "seeds"), rows)


def final_strength(recipe_name: str) -> str:
    """λ at the end of Phase I."""
    recipe = find_recipe(recipe_name)
    if not recipe.is_relaxed:
        return "∞ (BinaryConnect)"
    return f"{recipe.initial_strength * recipe.growth**recipe.num_growths:,.0f}"


def strengths() -> str:
    """Does λ at the end of Phase I matter? 100 epochs, judged by held-out images."""
    rows = []
    for change in ("+growth=1.01", "", "+growth=1.03", "+initial_strength=inf"):
        cells = []
        for method in ("binary", "ternary"):
            for decay in DECAYS:
                recipe = f"cifar10-resnet20-{method}-plus{decay}{change}{HELD_OUT}"
                cells.append(spread(map(last, runs_of(recipe).values())))
        name = final_strength(f"cifar10-resnet20-binary-plus{change}{HELD_OUT}")
        if set(cells) != {spread([])}:
            rows.append((name, *cells))
    headings = [f"{bits}, decay {decay}" for bits in BITS for decay in DECAYS.values()]
    return table(("λ at the end of Phase I", *headings), rows)


def phase_two() -> str:
    """What happens around the beginning of Phase II."""
    rows = []
    for recipe, group in all_runs().items():
        if not (group[0].is_relaxed and _tells_of_strength(recipe)):
            continue
        moments = [around_phase_two(run) for run in group]
        columns = [spread(values) for values in zip(*moments, strict=True)]
        drops = [after - before for before, after, *_ in moments]
        shown = f"`{recipe.removeprefix('cifar10-')}`"
        rows.append(
            (shown, final_strength(recipe), *columns[:2], spread(drops, signed=True), *columns[2:])
        )
    headings = ("recipe", "λ before", "at x", "projected", "drop", "first epoch of II")
    return table((*headings, "best of II", "last"), rows)


def _tells_of_strength(recipe: str) -> bool:
    """Whether it is a recipe for CIFAR-10 as it is listed, or a try that changes at most λ."""
    name, *changes = recipe.removesuffix(HELD_OUT).split("+")
    changes_strength = all(c.startswith(("growth", "weight_decay=3e-4")) for c in changes)
    return name.startswith("cifar10") and changes_strength


def around_phase_two(run: FinishedRun) -> tuple[float, ...]:
    """Accuracy at x and at proj(y) before it, after its first epoch, its best, its last."""
    before, first = run.result["epochs"][run.phase_two_epoch - 1 : run.phase_two_epoch + 1]
    both = before["accuracy"], before["accuracy_projected"]
    return *both, first["accuracy"], best(run), last(run)


def exact() -> str:
    """The exact projection against TWN's threshold, both with BinaryRelax."""
    pairs = {
        name: (f"{network}-ternary-exact{end}", f"{network}-ternary{end}")
        for name, network, end in settings()
    }
    pairs["the demo"] = "demo-ternary+quantizer=Ternary()", "demo-ternary"
    for decay, shown in DECAYS.items():
        threshold = f"cifar10-resnet20-ternary-plus{decay}"
        tried = f"{threshold}+quantizer=Ternary(){HELD_OUT}", f"{threshold}{HELD_OUT}"
        pairs[f"ResNet-20, 100 epochs, held-out images, decay {shown}"] = tried
    return compared(pairs, "exact", "TWN's threshold")


def jumps() -> str:
    """How much of a layer changes in a single step, under both ternary projections."""
    threshold, nearest = read(RESULTS / "findings" / "jumps.json")["records"]
    rows = []
    for before, after in zip(threshold["layers"], nearest["layers"], strict=True):
        name = f"{before['name'].removesuffix('.weight')} ({before['num_weights']:,} weights)"
        rows.append((name, *_jump(before), *_jump(after)))
    columns = ("flips a step: median", "largest", "zeros")
    headings = [f"{who}, {what}" for who in ("TWN", "exact") for what in columns]
    return table(("layer", *headings), rows)


def _jump(layer: dict[str, Any]) -> tuple[str, str, str]:
    flips, zeros = layer["level_flips"], layer["zeros"]
    percent = [f"{100 * flips[key]:.1f} %" for key in ("median", "largest")]
    return *percent, f"{100 * zeros['least']:.0f} to {100 * zeros['most']:.0f} %"


def start() -> str:
    """From the trained float network against from random weights."""
    pairs = {}
    for bits, (_, method) in BITS.items():
        for decay, shown in DECAYS.items():
            common = f"cifar10-resnet20-{method}-plus{decay}"
            tried = f"{common}{HELD_OUT}", f"{common}+starts_from=none{HELD_OUT}"
            pairs[f"ResNet-20, {bits}, 100 epochs, held-out images, decay {shown}"] = tried
    return compared(pairs, "from the float network", "from random weights")


def one_bit_against_twn() -> str:
    """Does 1 bit with BinaryRelax beat TWN's two?"""
    pairs = {
        name: (f"{network}-binary{end}", f"{network}-twn{end}") for name, network, end in settings()
    }
    return compared(pairs, "BinaryRelax, 1 bit", "TWN")


SECTIONS = {
    "findings-rivals": rivals,
    "findings-last-and-best": last_and_best,
    "findings-strengths": strengths,
    "findings-phase-two": phase_two,
    "findings-exact": exact,
    "findings-jumps": jumps,
    "findings-start": start,
    "findings-one-bit-against-twn": one_bit_against_twn,
}
