"""Which epoch of a run counts: the last, the best, the mean of the last ones."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from binaryrelax_lab.recipes import METHOD_NAMES, RecipeName, cifar10_resnet20
from binaryrelax_lab.recipes.cifar import cifar10_resnet32
from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.recipes.name import PLUS, TUNED
from binaryrelax_lab.report.drawing import COLOURS, QUIET, SHADE, label, legend, panels, title
from binaryrelax_lab.report.figures.evidence import Evidence, difference
from binaryrelax_lab.report.figures.markdown import (
    NOTHING,
    bullets,
    mean_text,
    range_text,
    spread_text,
    table,
)
from binaryrelax_lab.report.figures.schedules import (
    RELAXED,
    SCHEDULES,
    names_under,
    network_words,
    networks_under,
)
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import counted, last

LATE_SHARE = 15  # the last fifteenth of the epochs: 20 of 300, 7 of 100
FEWEST_LATE = 5
FIRST_EPOCH_SHOWN = 200


def late(run: RunResult) -> float | None:
    """The mean over the last epochs: the very last may be a lucky or unlucky one.

    None if a fifteenth of the epochs are too few to say more than the very last.
    """
    epochs = _late_epochs(run)
    return fmean(epochs) if len(epochs) >= FEWEST_LATE else None


def _swing(run: RunResult) -> float | None:
    """The standard deviation over the same epochs."""
    epochs = _late_epochs(run)
    return stdev(epochs) if len(epochs) >= FEWEST_LATE else None


def _late_epochs(run: RunResult) -> list[float]:
    return run.accuracies[-max(1, round(len(run.accuracies) / LATE_SHARE)) :]


def _best_above_last(run: RunResult) -> float | None:
    return difference(run.best, run.last)


def _hidden_by_statistics(run: RunResult) -> float | None:
    return difference(run.last_recalibrated, run.last)


def last_and_best(evidence: Evidence) -> str:
    """By how much the best epoch flatters, and what lagging statistics hide."""
    names = networks_under(SCHEDULES)
    rows = []
    for words, name in names.items():
        for method in PAPER_METHODS:
            runs = evidence.runs_of(name.with_method(method))
            if runs:
                rows.append((words, METHOD_NAMES[method], *_last_and_best(runs), str(len(runs))))
    headings = ("", "method", "last", "recalibrated − last", "best of Phase II − last")
    return table((*headings, "deviation over the last epochs", "seeds"), rows)


def _last_and_best(runs: list[RunResult]) -> tuple[str, ...]:
    hidden = [_hidden_by_statistics(run) for run in runs]
    num_known = sum(value is not None for value in hidden)
    fewer = f" ({counted(num_known, 'seed')})" if 0 < num_known < len(runs) else ""
    return (
        spread_text(map(last, runs)),
        spread_text(hidden, signed=True) + fewer,
        spread_text(map(_best_above_last, runs)),
        spread_text(map(_swing, runs)),
    )


def recovered(evidence: Evidence) -> str:
    """How much of the way to the best epoch fresh statistics recover, of the seeds that tell."""
    rows = []
    for row in (cifar10_resnet20, cifar10_resnet32):
        cells = [_recovered(evidence.runs_of(row(method).name)) for method in PAPER_METHODS[1:]]
        rows.append((network_words(row()), *cells))
    headings = ("recalibrated − last, of best − last", *map(METHOD_NAMES.get, PAPER_METHODS[1:]))
    return table(map(str, headings), rows)


def _recovered(runs: list[RunResult]) -> str:
    known = [run for run in runs if run.last_recalibrated is not None]
    if not known:
        return NOTHING
    gained, whole = (
        mean_text(map(figure, known)) for figure in (_hidden_by_statistics, _best_above_last)
    )
    return f"{gained} of {whole} ({counted(len(known), 'seed')})"


def last_and_best_in_short(evidence: Evidence) -> str:
    """The ranges of mean gaps of quantized networks under each schedule."""
    shown = []
    for end, schedule in SCHEDULES.items():
        names = names_under({end: schedule}, PAPER_METHODS[1:])
        gaps = evidence.means(names, _best_above_last)
        hidden = evidence.means(names, _hidden_by_statistics)
        if gaps:
            flattered = f"best − last {range_text(gaps, signed=False)}"
            shown.append(f"{schedule}: {flattered}, recalibrated − last {range_text(hidden)}")
    return bullets(shown)


def picture(evidence: Evidence) -> Drawing:
    """ResNet-20 towards the end, under both schedules: always of quantized weights."""
    drawing, (left, right) = panels(1, 2, size=(13, 5), sharey=True)
    title(left, "ResNet-20, the paper's schedule")
    title(right, "ResNet-20, annealed (momentum 0.9)")
    paper, plus, tuned = (RecipeName(cifar10_resnet20().name + end) for end in ("", PLUS, TUNED))
    _draw_methods(left, evidence, paper, PAPER_METHODS[1:])
    _draw_methods(right, evidence, plus, PAPER_METHODS[1:])
    _draw_methods(right, evidence, tuned, RELAXED, " tuned")
    for place in (left, right):
        label(place, x="epochs trained", y="test accuracy of quantized weights, %")
        place.set_xlim(FIRST_EPOCH_SHOWN, 300)
        place.set_ylim(66, 93)
        shade_phase_two(place, evidence.runs_of(paper.with_method("binary"))[0])
        legend(place, loc="lower right")
    return drawing


def _draw_methods(
    axes: Axes, evidence: Evidence, name: RecipeName, methods: Iterable[str], more: str = ""
) -> None:
    """The mean over seeds as a line, the lowest and the highest as a band."""
    for method in methods:
        runs = evidence.runs_of(name.with_method(method))
        if not runs:
            continue
        by_epoch = list(zip(*(run.quantized_accuracies for run in runs), strict=True))
        epochs = range(1, len(by_epoch) + 1)
        style = "--" if method in ("bwn", "twn") else ":" if more else "-"
        seeds = counted(len(runs), "seed")
        axes.plot(
            epochs, [fmean(values) for values in by_epoch], style, color=COLOURS[method], lw=1.6,
            label=f"{METHOD_NAMES[method]}{more} ({seeds})",
        )  # fmt: skip
        limits = [min(values) for values in by_epoch], [max(values) for values in by_epoch]
        axes.fill_between(epochs, *limits, color=COLOURS[method], alpha=0.15, lw=0)


def shade_phase_two(axes: Axes, run: RunResult) -> None:
    """A shade behind the epochs of Phase II."""
    begin, end = run.recipe.phase_two_epoch, len(run.epochs)
    axes.axvspan(begin, end, color=SHADE, lw=0, zorder=-2)
    axes.text(
        (begin + end) / 2, 0.985, "Phase II", color=QUIET, ha="center", va="top", fontsize=11,
        transform=axes.get_xaxis_transform(),
    )  # fmt: skip


SECTIONS = {
    "evidence-last-and-best": last_and_best,
    "evidence-recovered": recovered,
    "evidence-last-and-best-in-short": last_and_best_in_short,
}
PICTURES = {"evidence/last-epochs": picture}
