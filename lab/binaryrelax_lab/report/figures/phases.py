"""λ at the end of Phase I, and what Phase II adds, which projects x and keeps it in Q."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from binaryrelax_lab.recipes import Cosine, Recipe, RecipeName, find_recipe
from binaryrelax_lab.recipes.demo import STRENGTHS as STRENGTHS_OF_THE_DEMO
from binaryrelax_lab.recipes.name import PLUS, TUNED
from binaryrelax_lab.recipes.search import (
    BINARY_CONNECT,
    LARGER_STRENGTH,
    MORE_DECAY,
    SMALLER_STRENGTH,
    Change,
    relaxed_at_tuned_decay,
    tried,
)
from binaryrelax_lab.report.drawing import COLOURS, label, legend, panels, title
from binaryrelax_lab.report.figures.evidence import Evidence, grouped
from binaryrelax_lab.report.figures.last_epochs import late, shade_phase_two
from binaryrelax_lab.report.figures.markdown import (
    bullets,
    mean_text,
    range_text,
    spread_text,
    table,
    table_of_gains,
)
from binaryrelax_lab.report.figures.schedules import (
    ALL_SCHEDULES,
    ANNEALED,
    BITS,
    DECAYS,
    DEMO,
    DEMO_PAPER,
    LESS_MOMENTUM,
    RELAXED,
    SCHEDULES,
    bits_of,
    final_strength,
    names_under,
    network_words,
)
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import counted, last, spread_of

STRENGTHS: tuple[Change, ...] = (SMALLER_STRENGTH, {}, LARGER_STRENGTH, BINARY_CONNECT)
AT_TUNED_DECAY: dict[str, Change] = {PLUS: {}, TUNED: SMALLER_STRENGTH}  # by the schedule's λ
CASES = [(method, decay) for method in RELAXED for decay in DECAYS.values()]
OTHER_COLOUR = "#7c3aed"
MOMENTS = {"at_x": "at x", "projected": "projected at once", "an_epoch_later": "an epoch later"}


def demo_by_strength(bits: str) -> list[Recipe]:
    """Recipes of the demo whose λ ends Phase I higher and higher; BinaryConnect's at last."""
    baseline, relaxed = (find_recipe(DEMO.with_method(method)) for method in BITS[bits])
    changed = [relaxed, *(relaxed.with_settings(change) for change in STRENGTHS_OF_THE_DEMO)]
    return [*sorted(changed, key=lambda recipe: recipe.growth or 0), baseline]


def strengths_of_tries(evidence: Evidence) -> str:
    """The last epoch of tries by λ, and the mean of the last epochs."""
    rows = []
    for change in STRENGTHS:
        cells = [_last_and_late(evidence, tried(m, decay | change)) for m, decay in CASES]
        if set(cells) != {"-"}:
            rows.append((final_strength(tried("binary", change)), *cells))
    headings = [f"{bits}, decay {decay}" for bits in BITS for decay in DECAYS]
    return table(("λ at the end of Phase I", *headings), rows)


def _last_and_late(evidence: Evidence, recipe: Recipe) -> str:
    runs = evidence.runs_of(recipe.name)
    if not runs:
        return "-"
    seeds = f", {len(runs)} seeds" if len(runs) > 1 else ""
    return f"{spread_text(map(last, runs))} ({mean_text(map(late, runs), signed=False)}{seeds})"


def strengths_of_the_demo(evidence: Evidence) -> str:
    """The last epoch of the demo by λ, and by how much each is ahead of the demo's own."""
    rows = []
    for recipes in zip(*map(demo_by_strength, BITS), strict=True):
        cells: list[str | list[float]] = []
        for recipe, usual in zip(recipes, map(DEMO.with_method, RELAXED), strict=True):
            gains = evidence.differences((recipe.name, usual), last)
            cells.append(spread_text(map(last, evidence.runs_of(recipe.name))))
            cells.append("-" if recipe.name == usual else gains)
        rows.append((final_strength(recipes[0]), *cells))
    columns = ("last", f"gain over λ = {_strength_of_the_demo()}")
    headings = [f"{bits}, {column}" for bits in BITS for column in columns]
    return table_of_gains(("λ at the end of Phase I", *headings), rows)


def _strength_of_the_demo() -> str:
    return final_strength(find_recipe(DEMO.with_method("binary")))


def strengths_picture(evidence: Evidence) -> Drawing:
    """The last epoch by the λ at which Phase I ends: the demo, and tries of ResNet-20."""
    drawing, (left, right) = panels(1, 2, size=(13, 4.6))
    seeds = _draw_strengths(left, evidence, list(map(demo_by_strength, BITS)))
    title(left, f"the demo, {ANNEALED}: {counted(seeds, 'seed')} ± deviation")
    tries = [[tried(m, MORE_DECAY | change) for change in STRENGTHS] for m in RELAXED]
    seeds = _draw_strengths(right, evidence, tries)
    title(right, f"ResNet-20, {ANNEALED}: {counted(seeds, 'seed')}")
    label(left, x="λ at the end of Phase I", y="test accuracy, last epoch, %")
    label(right, x="λ at the end of Phase I", y="accuracy on held-out images, last epoch, %")
    for place in (left, right):
        place.margins(x=0.15, y=0.25)
        legend(place, loc="lower right")
    return drawing


def _draw_strengths(axes: Axes, evidence: Evidence, columns: Sequence[Sequence[Recipe]]) -> int:
    """Means with their deviations, side by side; λ without runs are left out.

    Returns the number of seeds that each has at most.
    """
    lasts = [
        [spread_of(map(last, evidence.runs_of(recipe.name))) for recipe in recipes]
        for recipes in columns
    ]
    shown = [place for place, spreads in enumerate(zip(*lasts, strict=True)) if any(spreads)]
    for (bits, (_, method)), spreads in zip(BITS.items(), lasts, strict=True):
        found = {x: spread for x, place in enumerate(shown) if (spread := spreads[place])}
        means = [spread.mean for spread in found.values()]
        deviations = [spread.deviation or 0 for spread in found.values()]
        axes.errorbar(
            list(found), means, deviations, marker="o", capsize=4, lw=1.2, color=COLOURS[method],
            label=bits,
        )  # fmt: skip
    axes.set_xticks(range(len(shown)), [final_strength(columns[0][place]) for place in shown])
    return max(spread.count for spreads in lasts for spread in spreads if spread)


class Moments(NamedTuple):
    """The accuracy at x when Phase I ends, and what changes.

    By projecting x on the spot; by an epoch of Phase II; from the best of Phase I, at x or
    projected, to the best of Phase II.
    """

    at_x: float
    by_projecting: float
    an_epoch_later: float
    best_of_two: float
    best_of_two_projected: float

    @staticmethod
    def of(run: RunResult) -> Moments:
        """Those of a run with both phases."""
        end = run.recipe.phase_two_epoch
        at_x, later = run.accuracies[end - 1 : end + 1]
        quantized, best = run.quantized_accuracies, max(run.accuracies[end:])
        gains = (best - max(accuracies[:end]) for accuracies in (run.accuracies, quantized))
        return Moments(at_x, quantized[end - 1] - at_x, later - at_x, *gains)


def phase_two(evidence: Evidence) -> str:
    """What happens around the beginning of Phase II, in whole runs of CIFAR."""
    return _moments(evidence, _relaxed_under(ALL_SCHEDULES))


def _relaxed_under(schedules: dict[str, str]) -> list[RecipeName]:
    """BinaryRelax on the networks of CIFAR, by network; with the runs at the tuned decay."""
    names = names_under(schedules, RELAXED)
    networks = [name.family for name in names]
    strengths = [strength for end, strength in AT_TUNED_DECAY.items() if end in schedules]
    names += [relaxed_at_tuned_decay(m, strength).name for strength in strengths for m in RELAXED]
    return sorted(names, key=lambda name: networks.index(name.family))


def phase_two_of_the_demo(evidence: Evidence) -> str:
    """The same in runs of the demo, under the paper's schedule and with several λ."""
    names: list[RecipeName] = []
    for bits, (_, relaxed) in BITS.items():
        paper = DEMO_PAPER.with_method(relaxed)
        names += [paper, RecipeName(paper + LESS_MOMENTUM)]
        names += [recipe.name for recipe in demo_by_strength(bits)]
    return _moments(evidence, names)


def _moments(evidence: Evidence, names: Iterable[RecipeName]) -> str:
    rows = []
    for name in names:
        runs = evidence.runs_of(name)
        if runs and find_recipe(name).is_relaxed:
            at_x, *changes, _ = zip(*map(Moments.of, runs), strict=True)
            about = _circumstances(find_recipe(name))
            rows.append((*about, spread_text(at_x), *changes, str(len(runs))))
    headings = ("", "schedule", "decay", "λ", *MOMENTS.values(), "best of II − best of I")
    return table_of_gains((*headings, "seeds"), rows)


def _circumstances(recipe: Recipe) -> tuple[str, ...]:
    """Network, schedule, weight decay and λ."""
    network = "the demo" if recipe.dataset == "fashion-mnist-12k" else network_words(recipe)
    ends = [end for end in ALL_SCHEDULES if end and recipe.name.endswith(end)]
    usual = PLUS if isinstance(recipe.lr_schedule, Cosine) else ""
    schedule = ALL_SCHEDULES[ends[0] if ends else usual].replace("'s schedule", "'s")
    decay = f"{recipe.weight_decay:.0e}".replace("e-0", "e-")
    return f"{network}, {bits_of(recipe)}", schedule, decay, final_strength(recipe)


def phase_two_in_short(evidence: Evidence) -> str:
    """The ranges of mean gains of Phase II and of mean drops at its start."""
    shown = []
    for end, schedule in SCHEDULES.items():
        names = list(filter(evidence.runs_of, _relaxed_under({end: schedule})))
        if names:
            gains = range_text(evidence.means(names, lambda run: Moments.of(run).best_of_two))
            drops = range_text(evidence.means(names, lambda run: Moments.of(run).by_projecting))
            about = f"{schedule}, λ = {final_strength(find_recipe(names[0]))}"
            shown.append(f"{about}: best of II − best of I {gains}, projected at once {drops}")
    return bullets(shown)


def phase_two_projected(evidence: Evidence) -> str:
    """The best of Phase II against the best of Phase I where that is projected, too."""
    shown = []
    for bits, (_, method) in BITS.items():
        names = list(filter(evidence.runs_of, names_under({"": ""}, [method])))
        gains = evidence.means(names, lambda run: Moments.of(run).best_of_two_projected)
        shown.append(f"{range_text(gains)} points at {bits}")
    return " and ".join(shown)


def statistics_at_phase_two(evidence: Evidence) -> str:
    """How much of the drop by projecting is batch statistics that lag behind."""
    records = evidence.read("results/findings/phase-two.json", "records")
    rows = []
    for name, mine in grouped(records, lambda r: r["recipe"]).items():
        figures = [
            spread_text(record[moment][how] for record in mine)
            for moment in MOMENTS
            for how in ("as_trained", "recalibrated")
        ]
        recipe = find_recipe(name)
        about = f"the demo, {bits_of(recipe)}", final_strength(recipe)
        rows.append((*about, *figures, str(len(mine))))
    headings = [text for words in MOMENTS.values() for text in (words, f"{words}, recalibrated")]
    return table(("", "λ", *headings, "seeds"), rows)


def phase_two_picture(evidence: Evidence) -> Drawing:
    """How the accuracy passes from Phase I into Phase II for two last λ."""
    drawing, axes = panels(1, len(BITS), size=(13, 5.4), sharey=True)
    for place, (bits, (_, method)) in zip(axes, BITS.items(), strict=True):
        title(place, f"ResNet-20, {bits}, {ANNEALED}")
        label(place, x="epochs trained", y="accuracy on held-out images, %")
        changes = {OTHER_COLOUR: MORE_DECAY | SMALLER_STRENGTH, COLOURS[method]: MORE_DECAY}
        for colour, change in changes.items():
            recipe = tried(method, change)
            run = evidence.runs_of(recipe.name)[0]
            _draw_both(place, run, f"λ up to {final_strength(recipe)}", colour)
        shade_phase_two(place, run)
        place.set_xlim(60, 100)
        place.set_ylim(0, 100)
        legend(place, loc="lower right")
    return drawing


def _draw_both(axes: Axes, run: RunResult, name: str, colour: str) -> None:
    """The accuracy at x as a line, at proj(y) as a dotted one; in Phase II they are the same."""
    epochs = range(1, len(run.epochs) + 1)
    axes.plot(epochs, run.accuracies, color=colour, lw=1.8, label=f"{name}: at x")
    until = run.recipe.phase_two_epoch + 1
    projected = run.quantized_accuracies[:until]
    axes.plot(epochs[:until], projected, ":", color=colour, lw=2, label=f"{name}: projected")


SECTIONS = {
    "evidence-strengths": strengths_of_tries,
    "evidence-strengths-of-the-demo": strengths_of_the_demo,
    "evidence-phase-two": phase_two,
    "evidence-phase-two-of-the-demo": phase_two_of_the_demo,
    "evidence-phase-two-statistics": statistics_at_phase_two,
    "evidence-phase-two-in-short": phase_two_in_short,
    "evidence-phase-two-projected": phase_two_projected,
}
PICTURES = {"evidence/strengths": strengths_picture, "evidence/phase-two": phase_two_picture}
