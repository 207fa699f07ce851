"""The answers of docs/findings.md in figures, at the head of the page."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from binaryrelax.lab.recipes import find_recipe
from binaryrelax.lab.recipes.search import MORE_DECAY, SMALLER_STRENGTH, tried
from binaryrelax.lab.report.runs import FinishedRun
from figures.common import spread, table
from figures.comparisons import (
    Pairs,
    exact_pairs,
    one_bit_pairs,
    rival_groups,
    start_pairs,
    with_runs,
)
from figures.evidence import (
    BITS,
    ROWS,
    SCHEDULES,
    best,
    differences,
    final_strength,
    gain_of_recalibration,
    last,
    recalibrated,
    runs_of,
)
from figures.findings import moments_of, recipes_by_strength

QUANTIZED = [method for pair in BITS.values() for method in pair]


def summary() -> str:
    """A row for each question: where it is answered, and the figures in short."""
    answers = {
        "Does BinaryRelax beat BinaryConnect at equal cost?": _rivals(),
        "How much do the last and the best epoch differ, and why?": _last_and_best(),
        "Does λ at the end of Phase I matter?": _strengths(),
        'Is the gain from Phase II "very limited", and how large is the drop at its start?': (
            _phase_two()
        ),
        "Does the exact ternary projection beat TWN's threshold?": _gains(exact_pairs()),
        "Does it matter to start from a trained float network?": _gains(start_pairs()),
        "Does 1 bit with BinaryRelax beat TWN, as the paper says of ResNet-18?": _one_bit(),
    }
    rows = [(f"[{question}](#{_anchor(question)})", text) for question, text in answers.items()]
    return table(("question", "in figures, points of accuracy"), rows)


def _anchor(heading: str) -> str:
    kept = "".join(sign for sign in heading.lower() if sign.isalnum() or sign in " -")
    return kept.replace(" ", "-")


def _rivals() -> str:
    """In how many comparisons it is ahead, by group."""
    groups = {words: with_runs(pairs).values() for words, pairs in rival_groups().items()}
    return "; ".join(
        f"{words}: ahead in {_ahead(pairs, last)} of {len(pairs)} by the last epoch, in "
        f"{_ahead(pairs, best)} by the best of Phase II{_ahead_recalibrated(pairs)}"
        for words, pairs in groups.items()
        if pairs
    )


def _ahead(pairs: Iterable[tuple[str, str]], figure) -> int:
    return sum(fmean(differences(*pair, figure)) > 0 for pair in pairs)


def _ahead_recalibrated(pairs: Iterable[tuple[str, str]]) -> str:
    measured = [pair for pair in pairs if differences(*pair, recalibrated)]
    ahead = f", in {_ahead(measured, recalibrated)} of {len(measured)} recalibrated"
    return ahead if measured else ""


def _last_and_best() -> str:
    """The range of mean gaps of quantized networks under each schedule."""
    parts = []
    for end, schedule in SCHEDULES.items():
        cells = [
            runs_of(f"cifar10-{row().network}-{method}{end}").values()
            for row in ROWS
            for method in QUANTIZED
        ]
        gaps = [fmean(best(run) - last(run) for run in runs) for runs in cells if runs]
        if gaps:
            parts.append(f"{schedule}: best − last {_range(gaps, signed=False)}{_hidden(cells)}")
    return "; ".join(parts)


def _hidden(cells: Iterable[Iterable[FinishedRun]]) -> str:
    """What lagging statistics hide, where they were measured anew."""
    found = [gain_of_recalibration(run) for runs in cells for run in runs]
    gains = [gain for gain in found if gain is not None]
    return f", recalibrated − last {_range(gains)}" if gains else ""


def _strengths() -> str:
    """A smaller λ against the paper's, in the tries that there are."""
    parts = []
    for bits, (_, method) in BITS.items():
        smaller, usual = tried(method, MORE_DECAY | SMALLER_STRENGTH), tried(method, MORE_DECAY)
        parts.append(f"{bits} {_short(differences(smaller.name, usual.name, last))}")
    answer = f"λ = {final_strength(smaller)} instead of {final_strength(usual)}: {', '.join(parts)}"
    return f"{answer}; the demo, {_strengths_of_the_demo()}"


def _strengths_of_the_demo() -> str:
    """All λ below infinity against the demo's own."""
    means = []
    for pair in BITS.values():
        for recipe in recipes_by_strength(*pair)[:-1]:
            gains = differences(recipe.name, f"demo-{recipe.method}", last)
            means += [fmean(gains)] if gains else []
    strengths = [final_strength(recipe) for recipe in recipes_by_strength(*BITS["1 bit"])[:-1]]
    usual = final_strength(find_recipe("demo-binary"))
    return f"λ = {strengths[0]} to {strengths[-1]} instead of {usual}: {_range(means)}"


def _phase_two() -> str:
    """The gain of Phase II and the drop at its start, over all runs of a schedule."""
    parts = []
    for end, schedule in SCHEDULES.items():
        moments = [moments_of(run) for run in _relaxed_runs(end)]
        if moments:
            _, _, drops, gains = zip(*moments, strict=True)
            strength = final_strength(find_recipe(f"cifar10-resnet20-binary{end}"))
            parts.append(
                f"{schedule}, λ = {strength}: best of II − best of I {_range(gains)}, first epoch "
                f"of II − last of I {_range(drops)}"
            )
    return "; ".join(parts)


def _relaxed_runs(end: str) -> list[FinishedRun]:
    return [
        run
        for row in ROWS
        for _, relaxed in BITS.values()
        for run in runs_of(f"cifar10-{row().network}-{relaxed}{end}").values()
    ]


def _range(values: Iterable[float], *, signed: bool = True) -> str:
    ordered = sorted(values)
    least, most = (spread([end], signed=signed) for end in (ordered[0], ordered[-1]))
    return least if least == most else f"{least} to {most}"


def _gains(pairs: Pairs) -> str:
    """The mean gain by the last epoch of each pair."""
    return "; ".join(
        f"{words.replace(', annealed, 100 epochs, held-out images', '')}: "
        f"{_short(differences(*pair, last))}"
        for words, pair in with_runs(pairs).items()
    )


def _one_bit() -> str:
    """By the last epoch and by the best, network by network."""
    return "; ".join(
        f"{words}: {_short(differences(*pair, last))} by the last epoch, "
        f"{_short(differences(*pair, best))} by the best"
        for words, pair in with_runs(one_bit_pairs()).items()
    )


def _short(gains: list[float]) -> str:
    seeds = "1 seed" if len(gains) == 1 else f"{len(gains)} seeds"
    return f"{spread([fmean(gains)], signed=True)} ({seeds})" if gains else "not run"


SECTIONS = {"findings-summary": summary}
