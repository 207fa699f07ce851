"""The paper's Figure 3 from our runs, and how accuracy decays while the learning rate stays."""

from __future__ import annotations

from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from binaryrelax_lab.recipes import METHOD_NAMES, Steps
from binaryrelax_lab.recipes.cifar import cifar100_resnet18, cifar100_vgg16
from binaryrelax_lab.report.drawing import COLOURS, QUIET, label, legend, panels, title
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.last_epochs import shade_phase_two
from binaryrelax_lab.report.figures.markdown import NOTHING, spread_text, table
from binaryrelax_lab.report.figures.schedules import ALL_ROWS, BITS, network_words
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import spread_of

NUM_MEANT = 10  # epochs at either end of a learning rate
SHOWN = (cifar100_vgg16, cifar100_resnet18)


def decay(run: RunResult) -> float:
    """How much accuracy is lost between the two drops of the learning rate, both in Phase I.

    The mean of the first ten epochs minus that of the last ten, at x.
    """
    first, second = _drops(run)
    between = run.accuracies[first:second]
    return fmean(between[:NUM_MEANT]) - fmean(between[-NUM_MEANT:])


def _drops(run: RunResult) -> tuple[int, int]:
    """The epochs at which the learning rate is divided by ten."""
    rates = [record.lr for record in run.epochs]
    places = [n for n in range(1, len(rates)) if rates[n] != rates[n - 1]]
    if len(places) != 2:
        raise ValueError(f"run {run.source}: {len(places)} drops of the learning rate, not 2")
    return places[0], places[1]


def decays(evidence: Evidence) -> str:
    """A row for each network and width: float, hard and relaxed, and what only λ can explain."""
    rows = []
    for row in ALL_ROWS:
        plain = _decays_of(evidence, row().name)
        for bits, methods in BITS.items():
            hard, relaxed = (_decays_of(evidence, row(method).name) for method in methods)
            if hard and relaxed:
                shown = [spread_text(values, signed=True) for values in (plain, hard, relaxed)]
                rows.append((network_words(row()), bits, *shown, share_of_strength(hard, relaxed)))
    headings = ("", "weights", "float", "hard (λ = ∞)", "BinaryRelax")
    return table((*headings, "BinaryRelax − hard, share"), rows)


def share_of_strength(hard: list[float], relaxed: list[float]) -> str:
    """What a hard network, whose λ does not grow, leaves unexplained, in points and in percent."""
    theirs, ours = spread_of(hard), spread_of(relaxed)
    if theirs is None or ours is None or ours.mean <= 0:
        return NOTHING
    more = ours.mean - theirs.mean
    return f"{spread_text([more], signed=True)} ({100 * more / ours.mean:.0f} %)"


def _decays_of(evidence: Evidence, name: str) -> list[float]:
    return [decay(run) for run in evidence.runs_of(name)]


def picture(evidence: Evidence) -> Drawing:
    """Accuracy on CIFAR-100 over the epochs, as in the paper's Figure 3."""
    drawing, axes = panels(len(SHOWN), len(BITS), size=(13, 9), sharex=True)
    places = iter(axes)
    for row in SHOWN:
        for bits, methods in BITS.items():
            place = next(places)
            title(place, f"{network_words(row())}, {bits}")
            for method in ("float", *methods):
                for run in evidence.runs_of(row(method).name)[:1]:
                    _draw(place, run, method)
            _mark_drops(place, row().lr_schedule)
            label(place, x="epochs trained", y="validation accuracy, %")
            place.set_ylim(35, 80)
            legend(place, loc="lower right")
    return drawing


def _draw(axes: Axes, run: RunResult, method: str) -> None:
    """At x: what the network computes with."""
    style = "--" if method in ("bwn", "twn") else ":" if method == "float" else "-"
    epochs = range(1, len(run.accuracies) + 1)
    axes.plot(
        epochs, run.accuracies, style, color=COLOURS[method], lw=1.4, label=METHOD_NAMES[method]
    )
    if run.recipe.is_relaxed:
        shade_phase_two(axes, run)


def _mark_drops(axes: Axes, schedule: object) -> None:
    """Dotted lines where the learning rate falls."""
    for epoch in schedule.milestones if isinstance(schedule, Steps) else ():
        axes.axvline(epoch, color=QUIET, lw=1, ls=":")


SECTIONS = {"evidence-decays": decays}
PICTURES = {"figure3": picture}
