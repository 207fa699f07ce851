"""What the runs say about epochs, λ and the phases: tables of docs/findings.md."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from binaryrelax.lab.recipes import METHOD_NAMES, NETWORK_NAMES, Cosine, Recipe, find_recipe
from binaryrelax.lab.recipes.demo_questions import STRENGTHS as STRENGTHS_OF_THE_DEMO
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.recipes.search import (
    BINARY_CONNECT,
    LARGER_STRENGTH,
    SMALLER_STRENGTH,
    tried,
)
from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.speech import counted
from figures.common import RESULTS, read, spread, table
from figures.comparisons import DECAYS, DEMO_NAMES
from figures.evidence import (
    ALL_SCHEDULES,
    BITS,
    LESS_MOMENTUM,
    ROWS,
    best,
    best_of_all,
    differences,
    final_strength,
    gain,
    gain_of_recalibration,
    last,
    late,
    runs_of,
    settings,
    swing,
)

NUM_LATE = 10  # epochs at a learning rate, before it falls or training ends
STRENGTHS = (SMALLER_STRENGTH, {}, LARGER_STRENGTH, BINARY_CONNECT)


def last_and_best() -> str:
    """By how much the best epoch flatters, and what lagging statistics hide."""
    names = {words: f"{network}-{{}}{end}" for words, network, end in settings()}
    names |= {f"the demo, {schedule}": demo[0] for schedule, demo in DEMO_NAMES.items()}
    rows = []
    for words, name in names.items():
        for method in PAPER_METHODS:
            runs = list(runs_of(name.format(method)).values())
            if runs:
                what = words, METHOD_NAMES[method]
                rows.append((*what, *_last_and_best(runs), str(len(runs))))
    headings = ("", "method", "last", "recalibrated − last", "best of Phase II − last")
    more = "best of all epochs − last", "deviation over the last epochs", "seeds"
    return table((*headings, *more), rows)


def _last_and_best(runs: list[FinishedRun]) -> tuple[str, ...]:
    return (
        spread(map(last, runs)),
        _gain_of_recalibration(runs),
        spread(best(run) - last(run) for run in runs),
        spread(best_of_all(run) - last(run) for run in runs),
        spread(map(swing, runs)),
    )


def _gain_of_recalibration(runs: list[FinishedRun]) -> str:
    gains = [value for value in map(gain_of_recalibration, runs) if value is not None]
    seeds = counted(len(gains), "seed")
    return spread(gains, signed=True) + (f" ({seeds})" if 0 < len(gains) < len(runs) else "")


def strengths() -> str:
    """Does λ at the end of Phase I matter? Tries of the search."""
    rows = []
    for change in STRENGTHS:
        groups = [
            list(runs_of(tried(method, decay | change).name).values())
            for _, method in BITS.values()
            for decay in DECAYS.values()
        ]
        if any(groups):
            cells = [_last_and_late(runs) for runs in groups]
            rows.append((final_strength(tried("binary", change)), *cells))
    headings = [f"{bits}, decay {decay}" for bits in BITS for decay in DECAYS]
    return table(("λ at the end of Phase I", *headings), rows)


def strengths_of_the_demo() -> str:
    """The same for the demo, and by how much each λ is ahead of the demo's own."""
    columns = {bits: recipes_by_strength(*pair) for bits, pair in BITS.items()}
    rows = []
    for recipes in zip(*columns.values(), strict=True):
        cells = []
        for recipe, (_, method) in zip(recipes, BITS.values(), strict=True):
            usual = f"demo-{method}"
            gains = differences(recipe.name, usual, last)
            is_other = gains and recipe.name != usual
            lasts = spread(map(last, runs_of(recipe.name).values()))
            cells += [lasts, gain(gains) if is_other else "-"]
        rows.append((final_strength(recipes[0]), *cells))
    own = final_strength(find_recipe("demo-binary"))
    headings = [f"{bits}, {what}" for bits in BITS for what in ("last", f"gain over λ = {own}")]
    return table(("λ at the end of Phase I", *headings), rows)


def recipes_by_strength(baseline: str, method: str) -> list[Recipe]:
    """Recipes of the demo whose λ ends Phase I higher and higher; BinaryConnect's at last."""
    usual = find_recipe(f"demo-{method}")
    relaxed = [usual, *(usual.with_settings(change) for change in STRENGTHS_OF_THE_DEMO)]
    return [*sorted(relaxed, key=lambda recipe: recipe.growth), find_recipe(f"demo-{baseline}")]


def _last_and_late(runs: list[FinishedRun]) -> str:
    if not runs:
        return "-"
    seeds = f", {len(runs)} seeds" if len(runs) > 1 else ""
    return f"{spread(map(last, runs))} ({fmean(map(late, runs)):.2f}{seeds})"


def phase_two() -> str:
    """What happens around the beginning of Phase II, in whole runs."""
    names = [
        f"cifar10-{row().network}-{method}{end}"
        for row in ROWS
        for end in ALL_SCHEDULES
        for _, method in BITS.values()
    ]
    return _around_phase_two([find_recipe(name) for name in names if runs_of(name)])


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


def phase_two_of_the_demo() -> str:
    """The same in runs of the demo, under the paper's schedule and with several λ."""
    recipes = []
    for pair in BITS.values():
        paper = [find_recipe(f"demo-paper-{pair[1]}{end}") for end in ("", LESS_MOMENTUM)]
        recipes += [*paper, *recipes_by_strength(*pair)]
    return _around_phase_two(recipes)


def _around_phase_two(recipes: list[Recipe]) -> str:
    rows = []
    for recipe in recipes:
        runs = runs_of(recipe.name).values()
        if runs and recipe.is_relaxed:
            at_x, *changes = zip(*(moments_of(run) for run in runs), strict=True)
            shown = [gain(values) for values in changes]
            rows.append((*_circumstances(recipe), spread(at_x), *shown, str(len(runs))))
    headings = ("", "schedule", "decay", "λ", "at x", "projected at once", "an epoch later")
    return table((*headings, "best of II − best of I", "seeds"), rows)


def _circumstances(recipe: Recipe) -> tuple[str, ...]:
    usual = "annealed" if isinstance(recipe.lr_schedule, Cosine) else "the paper's schedule"
    ends = [end for end in ALL_SCHEDULES if end and recipe.name.endswith(end)]
    schedule = ALL_SCHEDULES[ends[0]] if ends else usual
    decay = f"{recipe.weight_decay:.0e}".replace("e-0", "e-")
    network = NETWORK_NAMES[recipe.network] if recipe.dataset == "cifar10" else "the demo"
    return (
        f"{network}, {_bits(recipe)}",
        schedule.replace("'s schedule", "'s"),
        decay,
        final_strength(recipe),
    )


def _bits(recipe: Recipe) -> str:
    return next(bits for bits, pair in BITS.items() if recipe.method in pair)


def moments_of(run: FinishedRun) -> tuple[float, ...]:
    """The accuracy at x when Phase I ends, and what changes.

    By projecting x on the spot; by an epoch of Phase II; from the best of Phase I, at x, to the
    best of Phase II.
    """
    end = run.phase_two_epoch
    before, after = run.accuracies[end - 1 : end + 1]
    projected = run.quantized_accuracies[end - 1]
    gain = best(run) - max(run.accuracies[:end])
    return before, projected - before, after - before, gain


def statistics_at_phase_two() -> str:
    """How much of the drop by projecting is batch statistics that lag behind."""
    records = read(RESULTS / "findings" / "phase-two.json")["records"]
    rows = []
    for name in dict.fromkeys(record["recipe"] for record in records):
        mine = [record for record in records if record["recipe"] == name]
        figures = [
            spread(record[moment][how] for record in mine)
            for moment in ("at_x", "projected", "an_epoch_later")
            for how in ("as_trained", "recalibrated")
        ]
        recipe = find_recipe(name)
        what = f"the demo, {_bits(recipe)}", final_strength(recipe)
        rows.append((*what, *figures, str(len(mine))))
    moments = ("at x", "projected at once", "an epoch later")
    headings = [text for moment in moments for text in (moment, f"{moment}, recalibrated")]
    return table(("", "λ", *headings, "seeds"), rows)


def statistics_by_learning_rate() -> str:
    """Accuracies over the last epochs of each learning rate, with old and new batch statistics."""
    rows = []
    for record in read(RESULTS / "findings" / "flips.json")["records"]:
        decay, epochs = f"{record['weight_decay']:g}", record["epochs"]
        for rate in dict.fromkeys(epoch["lr"] for epoch in epochs):
            late = [epoch for epoch in epochs if epoch["lr"] == rate][-NUM_LATE:]
            flips = 1e4 * fmean(epoch["flips_a_step"] for epoch in late)
            figures = [spread(epoch[key] for epoch in late) for key in ("accuracy", "recalibrated")]
            rows.append((decay, f"{rate:g}", f"{flips:.1f}", *figures))
    headings = ("weight decay", "learning rate", "of 10,000 weights a step flips")
    return table((*headings, "batch statistics of training", "recalibrated"), rows)


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
    "findings-last-and-best": last_and_best,
    "findings-strengths": strengths,
    "findings-strengths-of-the-demo": strengths_of_the_demo,
    "findings-phase-two": phase_two,
    "findings-phase-two-of-tries": phase_two_of_tries,
    "findings-phase-two-of-the-demo": phase_two_of_the_demo,
    "findings-phase-two-statistics": statistics_at_phase_two,
    "findings-statistics": statistics_by_learning_rate,
    "findings-jumps": jumps,
}
