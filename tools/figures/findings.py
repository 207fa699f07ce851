"""What the runs say: the tables and answers of docs/findings.md."""

from __future__ import annotations

from typing import Any

from binaryrelax.lab.recipes import METHOD_NAMES, NETWORK_NAMES, Cosine, Recipe, find_recipe
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.recipes.recipe import TUNED
from binaryrelax.lab.recipes.search import (
    BINARY_CONNECT,
    EXACT,
    FROM_RANDOM_WEIGHTS,
    LARGER_STRENGTH,
    MORE_DECAY,
    SMALLER_STRENGTH,
    Change,
    tried,
)
from binaryrelax.lab.report.runs import FinishedRun
from figures.common import RESULTS, read, spread, table
from figures.evidence import (
    BITS,
    LATE_EPOCHS,
    ROWS,
    SCHEDULES,
    best,
    differences,
    final_strength,
    gain,
    last,
    late,
    runs_of,
    settings,
    swing,
    verdict,
)

DECAYS: dict[str, Change] = {"1e-4": {}, "3e-4": MORE_DECAY}
STRENGTHS = (SMALLER_STRENGTH, {}, LARGER_STRENGTH, BINARY_CONNECT)
Pairs = dict[str, tuple[str, str]]  # what is compared: our recipe, the other


def rivals() -> str:
    """BinaryRelax against BinaryConnect, everything else equal."""
    pairs = {
        f"{words}, {bits}": (f"{network}-{relaxed}{end}", f"{network}-{baseline}{end}")
        for words, network, end in settings()
        for bits, (baseline, relaxed) in BITS.items()
    }
    return compared(pairs | _tries({}, BINARY_CONNECT), "BinaryRelax", "BinaryConnect")


def exact() -> str:
    """The exact projection against TWN's threshold, both with BinaryRelax."""
    pairs = {
        words: (f"{network}-ternary-exact{end}", f"{network}-ternary{end}")
        for words, network, end in settings()
    }
    pairs["the demo"] = "demo-ternary+quantizer=Ternary()", "demo-ternary"
    return compared(pairs | _tries(EXACT, {}), "exact", "TWN's threshold")


def start() -> str:
    """From the trained float network against from random weights."""
    return compared(
        _tries({}, FROM_RANDOM_WEIGHTS), "from the float network", "from random weights"
    )


def one_bit_against_twn() -> str:
    """Does 1 bit with BinaryRelax beat TWN's two?"""
    pairs = {
        words: (f"{network}-binary{end}", f"{network}-twn{end}")
        for words, network, end in settings()
    }
    return compared(pairs, "1 bit, BinaryRelax", "TWN")


def _tries(ours: Change, theirs: Change) -> Pairs:
    """Two changes against each other among the tries of the search."""
    return {
        f"{_words_of_try(bits)}, decay {shown}": (
            tried(method, decay | ours).name,
            tried(method, decay | theirs).name,
        )
        for bits, (_, method) in BITS.items()
        if method == "ternary" or EXACT not in (ours, theirs)
        for shown, decay in DECAYS.items()
    }


def _words_of_try(bits: str) -> str:
    return f"ResNet-20, annealed, 100 epochs, held-out images, {bits}"


def compared(pairs: Pairs, ours: str, theirs: str) -> str:
    """A row for each pair of recipes that share seeds, with an answer."""
    rows = []
    for words, recipes in pairs.items():
        gains = [differences(*recipes, measure) for measure in (last, late, best)]
        if gains[0]:
            shared = runs_of(recipes[0]).keys() & runs_of(recipes[1]).keys()
            ends = [
                spread(last(runs_of(recipe)[seed]) for seed in shared)
                for recipe in reversed(recipes)
            ]
            rows.append((words, *ends, *map(gain, gains), ", ".join(map(verdict, gains))))
    if not rows:
        return "Not run yet."
    ends = f"{theirs}, last", f"{ours}, last"
    gains = "gain, last epoch", f"gain, mean of last {LATE_EPOCHS}", "gain, best of Phase II"
    return table(("", *ends, *gains, "ahead?"), rows)


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
    headings = ("ResNet-20", "method", "last", "best of Phase II − last")
    return table((*headings, f"deviation over the last {LATE_EPOCHS} epochs", "seeds"), rows)


def strengths() -> str:
    """Does λ at the end of Phase I matter? Tries of the search."""
    rows = []
    for change in STRENGTHS:
        cells = [
            spread(map(last, runs_of(tried(method, decay | change).name).values()))
            for _, method in BITS.values()
            for decay in DECAYS.values()
        ]
        if set(cells) != {spread([])}:
            rows.append((final_strength(tried("binary", change)), *cells))
    headings = [f"{bits}, decay {decay}" for bits in BITS for decay in DECAYS]
    return table(("λ at the end of Phase I", *headings), rows)


def phase_two() -> str:
    """What happens around the beginning of Phase II, in whole runs."""
    recipes = [
        find_recipe(f"cifar10-{row().network}-{method}{end}")
        for row in ROWS
        for end in SCHEDULES
        for _, method in BITS.values()
    ]
    tuned = [find_recipe(f"cifar10-resnet20-{method}{TUNED}") for _, method in BITS.values()]
    return _around_phase_two([*recipes, *tuned])


def phase_two_of_tries() -> str:
    """The same in tries of the search that differ in λ."""
    return _around_phase_two(
        [
            tried(method, decay | change)
            for _, method in BITS.values()
            for decay in DECAYS.values()
            for change in STRENGTHS
        ]
    )


def _around_phase_two(recipes: list[Recipe]) -> str:
    rows = []
    for recipe in recipes:
        runs = runs_of(recipe.name).values()
        if runs and recipe.is_relaxed:
            moments = [moments_of(run) for run in runs]
            changes = [projected - at_x for at_x, projected, *_ in moments]
            at_x, projected, *others = (spread(values) for values in zip(*moments, strict=True))
            before = at_x, projected, spread(changes, signed=True)
            rows.append((*_circumstances(recipe), *before, *others))
    headings = ("", "schedule", "decay", "λ", "at x", "projected", "change", "after an epoch of II")
    return table((*headings, "best of I, projected", "best of II", "last"), rows)


def _circumstances(recipe: Recipe) -> tuple[str, ...]:
    bits = {"binary": "1 bit", "ternary": "ternary"}[recipe.method]
    schedule = "annealed" if isinstance(recipe.lr_schedule, Cosine) else "the paper's"
    decay = f"{recipe.weight_decay:.0e}".replace("e-0", "e-")
    return f"{NETWORK_NAMES[recipe.network]}, {bits}", schedule, decay, final_strength(recipe)


def moments_of(run: FinishedRun) -> tuple[float, ...]:
    """Accuracies: at x and at proj(y) when Phase I ends, one epoch later; the best; the last."""
    epochs = run.result["epochs"]
    end, later = epochs[run.phase_two_epoch - 1 : run.phase_two_epoch + 1]
    best_before = max(record["accuracy_projected"] for record in epochs[: run.phase_two_epoch])
    both = end["accuracy"], end["accuracy_projected"]
    return *both, later["accuracy"], best_before, best(run), last(run)


def jumps() -> str:
    """How much of a layer changes in a single step, under both ternary projections."""
    rows = []
    for name, words in (("demo", "the demo"), ("resnet20", "ResNet-20, first epoch")):
        records = read(RESULTS / "findings" / f"jumps-{name}.json")["records"]
        threshold, nearest = (_jumpiest_of_each_size(record["layers"]) for record in records)
        rows += [
            (words, f"{size:,}", *_jump(threshold[size]), *_jump(nearest[size]))
            for size in threshold
        ]
    columns = ("flips a step, median", "largest", "zeros")
    headings = [f"{who}: {what}" for who in ("TWN", "exact") for what in columns]
    return table(("", "weights of a layer", *headings), rows)


def _jumpiest_of_each_size(layers: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Of the layers of a size the one in which the largest share changed at once."""
    ordered = sorted(layers, key=lambda layer: layer["level_flips"]["largest"])
    found = {layer["num_weights"]: layer for layer in ordered}
    return dict(sorted(found.items()))


def _jump(layer: dict[str, Any]) -> tuple[str, str, str]:
    flips, zeros = layer["level_flips"], layer["zeros"]
    percent = [f"{100 * flips[key]:.1f} %" for key in ("median", "largest")]
    return *percent, f"{100 * zeros['least']:.0f} to {100 * zeros['most']:.0f} %"


SECTIONS = {
    "findings-rivals": rivals,
    "findings-last-and-best": last_and_best,
    "findings-strengths": strengths,
    "findings-phase-two": phase_two,
    "findings-phase-two-of-tries": phase_two_of_tries,
    "findings-exact": exact,
    "findings-jumps": jumps,
    "findings-start": start,
    "findings-one-bit-against-twn": one_bit_against_twn,
}
