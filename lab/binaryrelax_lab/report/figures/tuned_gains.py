"""Whether `-tuned` owes its lead over BinaryConnect to BinaryRelax: runs of the same floats."""

from __future__ import annotations

from collections.abc import Sequence

from binaryrelax_lab.recipes import METHOD_NAMES, Recipe, cifar10_resnet20, find_recipe
from binaryrelax_lab.recipes.name import PLUS
from binaryrelax_lab.recipes.search import (
    SMALLER_STRENGTH,
    Change,
    cifar10_resnet20_tuned,
    relaxed_at_tuned_decay,
)
from binaryrelax_lab.report.figures.comparisons import Pairs, Question, tuned_rivals
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import spread_text, table_of_gains
from binaryrelax_lab.report.figures.schedules import BITS, final_strength
from binaryrelax_lab.results.statistics import Figure, best, counted, last, mean_of_phase_two

STRENGTHS: tuple[Change, ...] = (SMALLER_STRENGTH, {})  # the λ of -tuned, and the paper's
FIGURES: dict[str, Figure] = {
    "last epoch": last,
    "best of Phase II": best,
    "mean of Phase II": mean_of_phase_two,
}


def tuned_gains(evidence: Evidence) -> str:
    """BinaryConnect at the decay of -tuned, and what BinaryRelax gains with either λ."""
    rows: list[list[str | Sequence[float]]] = []
    for bits, (baseline, relaxed) in BITS.items():
        hard = cifar10_resnet20_tuned(baseline)
        rows.append([bits, METHOD_NAMES[baseline], "∞", *_figures(evidence, hard, hard)])
        for strength in STRENGTHS:
            soft = relaxed_at_tuned_decay(relaxed, strength)
            figures = _figures(evidence, soft, hard)
            rows.append([bits, "BinaryRelax", final_strength(soft), *figures])
    headings = [heading for figure in FIGURES for heading in (figure, "gain")]
    return table_of_gains(("weights", "method", "λ", *headings, "seeds"), rows)


def _figures(evidence: Evidence, recipe: Recipe, hard: Recipe) -> list[str | Sequence[float]]:
    """Each figure and its gain over the hard recipe, then the number of seeds."""
    runs = evidence.runs_of(recipe.name)
    cells: list[str | Sequence[float]] = []
    for figure in FIGURES.values():
        gains = evidence.differences((recipe.name, hard.name), figure)
        cells += [spread_text(map(figure, runs)), "-" if recipe is hard else gains]
    return [*cells, str(len(runs))]


def tuned_lead(evidence: Evidence) -> str:
    """Whose lead it is, in one sentence; and how often BinaryRelax is ahead."""
    by_strength = [[_gains(evidence, bits, s, last) for bits in BITS] for s in STRENGTHS]
    tuned, usual = ([spread_text(g, signed=True) for g in gains] for gains in by_strength)
    rivals = (METHOD_NAMES[baseline] for baseline, _ in BITS.values())
    leads = (f"{gain} over {rival}" for gain, rival in zip(tuned, rivals, strict=True))
    strength = final_strength(find_recipe(tuned_rivals("1 bit", {})[0]))
    whose = verdict(_gains_of_all(evidence, (last, best)))
    seeds = counted(min(len(gains) for row in by_strength for gains in row), "seed")
    return (
        f"{whose}: at the last epoch {' and '.join(leads)}. With λ to {strength} it is "
        f"{' and '.join(usual)}, over {seeds} from the same float networks. {_how_often(evidence)}"
    )


def verdict(gains: Sequence[float]) -> str:
    """By the gains of all seeds, both λ and both widths, of the last epoch and of the best."""
    if min(gains) > 0:
        return "owes its lead to BinaryRelax"
    return "does not owe its lead to BinaryRelax alone"


def _how_often(evidence: Evidence) -> str:
    by_figure = [_gains_of_all(evidence, (figure,)) for figure in FIGURES.values()]
    wins = [sum(gain > 0 for gain in gains) for gains in by_figure]
    return (
        f"Of {len(by_figure[0])} pairs of runs, BinaryRelax wins {wins[0]} at the last epoch, "
        f"{wins[1]} by the best, {wins[2]} by the mean of Phase II."
    )


def _gains_of_all(evidence: Evidence, figures: Sequence[Figure]) -> list[float]:
    return [
        gain
        for figure in figures
        for strength in STRENGTHS
        for bits in BITS
        for gain in _gains(evidence, bits, strength, figure)
    ]


def _gains(evidence: Evidence, bits: str, strength: Change, figure: Figure) -> list[float]:
    return evidence.differences(tuned_rivals(bits, strength), figure)


def _steps() -> Pairs:
    """From -plus to -tuned a change at a time, and at once."""
    pairs: Pairs = {}
    for bits, (baseline, relaxed) in BITS.items():
        hard, soft = (cifar10_resnet20(method + PLUS).name for method in (baseline, relaxed))
        tuned, decayed = (relaxed_at_tuned_decay(relaxed, strength).name for strength in STRENGTHS)
        decayed_hard, first_tuned = (cifar10_resnet20_tuned(m).name for m in (baseline, relaxed))
        pairs |= {
            f"{bits}, {METHOD_NAMES[baseline]}, decay": (decayed_hard, hard),
            f"{bits}, BinaryRelax, decay": (decayed, soft),
            f"{bits}, BinaryRelax, then λ": (tuned, decayed),
            f"{bits}, BinaryRelax, both": (tuned, soft),
            f"{bits}, BinaryRelax, both, other float networks": (first_tuned, soft),
        }
    return pairs


def _strength_pairs() -> Pairs:
    """The λ of -tuned and the paper's."""
    pairs: Pairs = {}
    for bits, (_, relaxed) in BITS.items():
        tuned, usual = (relaxed_at_tuned_decay(relaxed, strength).name for strength in STRENGTHS)
        pairs[f"ResNet-20, {bits}"] = tuned, usual
    return pairs


SECTIONS = {
    "recipes-tuned-gains": tuned_gains,
    "recipes-tuned-lead": tuned_lead,
    "recipes-tuned-steps": Question(_steps, "with the change", "without").table,
    "evidence-strengths-tuned": Question(_strength_pairs, "λ = 11", "λ = 114").table,
}
