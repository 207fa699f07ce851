"""Two ways of training against each other, everything else equal: tables and pictures of gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from binaryrelax_lab.recipes import METHOD_NAMES, RecipeName, find_recipe, search
from binaryrelax_lab.recipes.demo import from_random_weights
from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.recipes.name import PLUS, TUNED
from binaryrelax_lab.recipes.notebook import demo_momentum, vgg11_momentum
from binaryrelax_lab.report.drawing import COLOURS, GRID, INK, QUIET, label, panels
from binaryrelax_lab.report.figures.evidence import Evidence, Pair
from binaryrelax_lab.report.figures.markdown import (
    chance_text,
    mean_text,
    table,
    table_of_gains,
)
from binaryrelax_lab.report.figures.schedules import (
    ALL_ROWS,
    ALL_SCHEDULES,
    ANNEALED,
    BITS,
    DECAYS,
    DEMO,
    DEMO_SCHEDULES,
    RELAXED,
    SCHEDULES,
    network_words,
    networks_under,
)
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import (
    Figure,
    best,
    last,
    last_recalibrated,
    mean_of_phase_two,
    sign_chance,
)

Pairs = dict[str, Pair]  # by what is compared
LENGTH = "100 epochs, held-out images"  # of a try
TRIES = f"ResNet-20, {ANNEALED}, {LENGTH}"
TRIES_BY_MOMENTUM = f"ResNet-20, cosine to zero, {LENGTH}"
DECAYED = f"{ANNEALED}, decay 3e-4"
APART = " †"  # marks two runs of a seed that do not start alike
APART_NOTE = "† The two start from different trainings of the float network."
FIGURES: dict[str, Figure] = {
    "last epoch": last,
    "last epoch, recalibrated": last_recalibrated,
    "mean of Phase II": mean_of_phase_two,
    "best of Phase II": best,
}
DOTS: dict[str, tuple[Figure, str, bool]] = {  # in pictures: a marker, whether it is filled
    "last epoch": (last, "o", True),
    "last epoch, recalibrated": (last_recalibrated, "D", True),
    "best epoch of Phase II": (best, "o", False),
}
PLACES = (-0.3, 0.0, 0.3)  # of the figures of a run within a row of a picture
WIDTH = 0.2  # that the seeds of one are spread over
LETTERS = 48  # of a line beside a row


@dataclass(frozen=True)
class Question:
    """Whether one way of training is better than another.

    Args:
        pairs: the recipes that answer it.
        ours, theirs: the two ways, in words.
        first: ours as a picture calls it, if otherwise.
    """

    pairs: Callable[[], Pairs]
    ours: str
    theirs: str
    first: str = ""

    def answers(self, evidence: Evidence) -> Pairs:
        """The pairs of recipes that share seeds."""
        return _with_runs(evidence, self.pairs())

    def table(self, evidence: Evidence) -> str:
        """A row for each pair: what is gained by each figure of a run."""
        rows: list[list[str | list[float]]] = []
        for words, pair in self.answers(evidence).items():
            gains = [evidence.differences(pair, figure) for figure in FIGURES.values()]
            rows.append([words + (APART if start_apart(evidence, pair) else ""), *gains])
        if not rows:
            return "Not run yet."
        headings = [f"{self.first or self.ours} − {self.theirs}", *FIGURES]
        shown = table_of_gains(headings, rows)
        return f"{shown}\n\n{APART_NOTE}" if APART in shown else shown

    def picture(self, evidence: Evidence) -> Drawing:
        """A row for each pair, a dot for each seed."""
        rows = self.answers(evidence)
        drawing, (axes,) = panels(1, 1, size=(11, 1.7 + 0.52 * len(rows)))
        for height, pair in enumerate(rows.values()):
            colour = COLOURS[find_recipe(pair[0]).method]
            for place, (figure, marker, is_filled) in zip(PLACES, DOTS.values(), strict=True):
                gains = evidence.differences(pair, figure)
                _draw_seeds(axes, gains, height + place, _style(colour, marker, is_filled))
        axes.axvline(0, color=INK, lw=1)
        names = [fill(row, LETTERS, break_on_hyphens=False) for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="x", color=GRID)
        words = f"{self.first or self.ours} − {self.theirs}"
        label(axes, x=f"{words},\npoints of accuracy; a dot for each seed")
        handles = [
            Line2D([], [], **_style(QUIET, marker, is_filled), label=name)
            for name, (_, marker, is_filled) in DOTS.items()
        ]
        drawing.legend(
            handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=11
        )
        return drawing


def start_apart(evidence: Evidence, pair: Pair) -> bool:
    """Whether some seed of two recipes starts from two trainings of the float network."""
    ours, theirs = ({run.seed: run.start for run in evidence.runs_of(name)} for name in pair)
    both = [(start, theirs.get(seed)) for seed, start in ours.items()]
    return any(one and other and one.digest != other.digest for one, other in both)


def _style(colour: str, marker: str, is_filled: bool) -> dict[str, Any]:
    face = colour if is_filled else "white"
    return {"ls": "", "marker": marker, "ms": 6.5, "mfc": face, "mec": colour, "mew": 1.4}


def _draw_seeds(axes: Axes, values: Sequence[float], height: float, style: dict[str, Any]) -> None:
    """The seeds of one figure, a little below each other."""
    if values:  # nothing at all, unclipped, would count as a point in the corner
        gaps = len(values) - 1
        heights = [height + WIDTH * (n - gaps / 2) / max(gaps, 1) for n in range(len(values))]
        axes.plot(values, heights, **style, clip_on=False)


def _with_runs(evidence: Evidence, pairs: Pairs) -> Pairs:
    return {words: pair for words, pair in pairs.items() if evidence.differences(pair, last)}


def rival_groups() -> dict[str, Pairs]:
    """BinaryRelax and BinaryConnect, by how they were trained."""
    groups: dict[str, Pairs] = {}
    for end, schedule in ALL_SCHEDULES.items():
        groups[schedule] = _rivals(networks_under({end: schedule}))
    groups[DECAYED] = {f"ResNet-20, {DECAYED}, {bits}": tuned_rivals(bits, {}) for bits in BITS}
    groups["tries"] = _pairs_of_tries({}, search.BINARY_CONNECT)
    for schedule, names in DEMO_SCHEDULES.items():
        words = f"the demo, {schedule}"
        groups[words] = _rivals({f"{words}, {find_recipe(n).epochs} epochs": n for n in names})
    return groups


def _rivals(networks: dict[str, RecipeName]) -> Pairs:
    return {
        f"{words}, {bits}": (_relaxed(name, relaxed), name.with_method(baseline))
        for words, name in networks.items()
        for bits, (baseline, relaxed) in BITS.items()
    }


def _relaxed(name: RecipeName, method: str) -> RecipeName:
    """BinaryRelax in the way of a name: of -tuned, the runs that start where its rivals do."""
    if name.variation == TUNED:
        return search.relaxed_at_tuned_decay(method, search.SMALLER_STRENGTH).name
    return name.with_method(method)


def tuned_rivals(bits: str, strength: search.Change) -> Pair:
    """BinaryRelax with this λ and BinaryConnect, both at the decay of -tuned."""
    baseline, relaxed = BITS[bits]
    ours = search.relaxed_at_tuned_decay(relaxed, strength)
    return ours.name, search.cifar10_resnet20_tuned(baseline).name


def _rival_pairs() -> Pairs:
    return {words: pair for pairs in rival_groups().values() for words, pair in pairs.items()}


def _exact_pairs() -> Pairs:
    """Both with BinaryRelax."""
    names = networks_under(ALL_SCHEDULES).items()
    pairs: Pairs = {w: (n.with_method("ternary-exact"), n.with_method("ternary")) for w, n in names}
    demo = find_recipe(DEMO.with_method("ternary"))
    pairs |= _pairs_of_tries(search.EXACT, {})
    return pairs | {"the demo": (demo.with_settings(search.EXACT).name, demo.name)}


def _start_pairs() -> Pairs:
    pairs = _pairs_of_tries({}, search.FROM_RANDOM_WEIGHTS)
    for bits, (_, method) in BITS.items():
        relaxed = find_recipe(DEMO.with_method(method))
        as_long, as_dear = from_random_weights(relaxed)
        pairs[f"the demo, {bits}"] = relaxed.name, as_long.name
        pairs[f"the demo, {bits}, as many epochs in all"] = relaxed.name, as_dear.name
    return pairs


def _annealed_pairs() -> Pairs:
    """The learning rate annealed to zero, with momentum 0.9."""
    return {
        f"{network_words(row())}, {METHOD_NAMES[method]}": (
            row(method + PLUS).name,
            row(method).name,
        )
        for row in ALL_ROWS
        for method in PAPER_METHODS
    }


def _one_bit_pairs(schedules: dict[str, str] = ALL_SCHEDULES) -> Pairs:
    names = networks_under(schedules).items()
    return {words: (_relaxed(name, "binary"), name.with_method("twn")) for words, name in names}


def _momentum_pairs() -> Pairs:
    rows = {"VGG-11": vgg11_momentum(), "the demo": demo_momentum()}
    pairs: Pairs = {
        f"{words}, the paper's schedule, {METHOD_NAMES[recipe.method]}": (
            recipe.name,
            recipe.name.base,
        )
        for words, row in rows.items()
        for recipe in row
        if recipe.quantizer
    }
    return pairs | _pairs_of_tries({}, search.PAPER_MOMENTUM, TRIES_BY_MOMENTUM)


def _pairs_of_tries(ours: search.Change, theirs: search.Change, words: str = TRIES) -> Pairs:
    """Two changes against each other among the tries of the search."""
    return {
        f"{words}, {bits}, decay {shown}": (
            search.tried(method, decay | ours).name,
            search.tried(method, decay | theirs).name,
        )
        for bits, (_, method) in BITS.items()
        if method == "ternary" or search.EXACT not in (ours, theirs)
        for shown, decay in DECAYS.items()
    }


QUESTIONS = {  # by the name of their table and their picture
    "gains": Question(_rival_pairs, "BinaryRelax", "BinaryConnect"),
    "annealed": Question(_annealed_pairs, ANNEALED, "the paper's schedule"),
    "exact": Question(_exact_pairs, "exact", "TWN's threshold", first="exact projection"),
    "start": Question(_start_pairs, "from the float network", "from random weights"),
    "momentum": Question(_momentum_pairs, "momentum 0.9", "momentum 0.95"),
    "one-bit": Question(
        _one_bit_pairs, "1 bit, BinaryRelax", "TWN", first="1 bit with BinaryRelax"
    ),
}


def gains_in_short(evidence: Evidence) -> str:
    """The mean gain over the networks under each schedule, at 1 bit and at ternary."""
    groups, rows = rival_groups(), []
    demo = (f"the demo, {schedule}" for schedule in ("the paper's schedule", ANNEALED))
    for group in (*SCHEDULES.values(), DECAYED, *demo):
        pairs = _with_runs(evidence, groups[group]).values()
        for bits, method in zip(BITS, RELAXED, strict=True):
            mine = [pair for pair in pairs if find_recipe(pair[0]).method == method]
            if mine:
                figures = last, mean_of_phase_two, best
                means = (mean_text(evidence.mean_gains(mine, figure)) for figure in figures)
                mark = APART if any(start_apart(evidence, pair) for pair in mine) else ""
                rows.append((f"{group}, {bits}{mark}", *means, str(len(mine))))
    return table(("mean gain", "last epoch", "mean of Phase II", "best", "comparisons"), rows)


def gains_by_sign(evidence: Evidence) -> str:
    """How many comparisons under the paper's schedule BinaryRelax wins, and how many networks.

    The two comparisons of a network share their float network: only networks are independent.
    """
    pairs = _with_runs(evidence, rival_groups()[SCHEDULES[""]]).values()
    rows = []
    for words, figure in (FIGURES | {"best of all epochs, projected": best_of_all}).items():
        gains: dict[str, list[float]] = {}
        for pair in pairs:
            recipe = find_recipe(pair[0])
            gains.setdefault(network_words(recipe), []).extend(evidence.mean_gains([pair], figure))
        single = [gain for mine in gains.values() for gain in mine]
        whole = [sum(mine) for mine in gains.values() if len(mine) == len(BITS)]
        rows.append((words, *_wins(single), f"{min(single):+.2f}".replace("-", "−"), *_wins(whole)))
    headings = ("figure", "comparisons won", "p", "least gain", "networks won, widths added", "p")
    return table(headings, rows)


def best_of_all(run: RunResult) -> float:
    """The best accuracy of quantized weights, in Phase I of projected ones.

    Hard networks are quantized from the first step, and may have their best epoch before Phase II.
    """
    return max(run.quantized_accuracies)


def _wins(gains: Sequence[float]) -> tuple[str, str]:
    ahead = sum(gain > 0 for gain in gains)
    return f"{ahead} of {len(gains)}", chance_text(sign_chance(ahead, len(gains)))


SECTIONS = {
    **{f"evidence-{name}": question.table for name, question in QUESTIONS.items()},
    "evidence-gains-in-short": gains_in_short,
    "evidence-gains-by-sign": gains_by_sign,
}
PICTURES = {f"evidence/{name}": question.picture for name, question in QUESTIONS.items()}
