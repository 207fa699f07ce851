"""Whether BinaryRelax gains more on larger networks, under the paper's schedule."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.report.figures.evidence import Evidence, difference
from binaryrelax_lab.report.figures.markdown import chance_text, mean_text, table
from binaryrelax_lab.report.figures.schedules import ALL_ROWS, BITS, network_words
from binaryrelax_lab.results.statistics import Figure, best, last, mean_of_phase_two

FIGURES: dict[str, Figure] = {"last": last, "mean of Phase II": mean_of_phase_two, "best": best}


class Sized(NamedTuple):
    """A network, how many quantized weights it has, and the gains at 1 bit or at ternary."""

    words: str
    dataset: str
    num_weights: int
    by_paper: float
    ours: list[float]


def by_size(evidence: Evidence) -> str:
    """A row for each network that has been run, the smallest first."""
    columns = [_networks(evidence, bits) for bits in BITS]
    rows = []
    for narrow, wide in zip(*columns, strict=True):
        cells = [
            mean_text([value]) for one in (narrow, wide) for value in (one.by_paper, *one.ours)
        ]
        rows.append((narrow.words, f"{narrow.num_weights / 1e6:.2f} M", *cells))
    kinds = ("the paper", *FIGURES)
    headings = [f"{bits}, {kind}" for bits in BITS for kind in kinds]
    return table(("gain on", "quantized weights", *headings), rows)


def rank_correlations(evidence: Evidence) -> str:
    """Spearman's correlation of size and gain over the networks of CIFAR-10, and its p."""
    rows = []
    for bits in BITS:
        found = [one for one in _networks(evidence, bits) if one.dataset == "cifar10"]
        sizes = [one.num_weights for one in found]
        gains = zip(*((one.by_paper, *one.ours) for one in found), strict=True)
        rows.append((bits, str(len(found)), *(_correlation_text(sizes, g) for g in gains)))
    return table(("", "networks", "the paper", *FIGURES), rows)


def _correlation_text(sizes: Sequence[float], gains: Sequence[float]) -> str:
    correlation = f"{rank_correlation(sizes, gains):+.1f}".replace("-", "−")
    return f"{correlation} (p = {chance_text(shuffled_chance(sizes, gains))})"


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's. Values that look the same with two digits share their rank."""
    ours, theirs = (rankdata(np.round(values, 2)) for values in (first, second))
    return float(np.corrcoef(ours, theirs)[0, 1])


def shuffled_chance(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of all orders of the second whose correlation is as large, of either sign."""
    found = abs(rank_correlation(first, second)) - 1e-9
    return fmean(abs(rank_correlation(first, p)) >= found for p in permutations(second))


def _networks(evidence: Evidence, bits: str) -> list[Sized]:
    """Those with both methods and a figure in the paper, the smallest first."""
    found = []
    for row in ALL_ROWS:
        theirs, ours = map(row, BITS[bits])
        gains = [evidence.mean_gains([(ours.name, theirs.name)], f) for f in FIGURES.values()]
        stated = difference(ours.paper_accuracy, theirs.paper_accuracy)
        if all(gains) and stated is not None:
            size = _num_weights(evidence, ours)
            words = network_words(ours)
            found.append(Sized(words, ours.dataset, size, stated, [gain for (gain,) in gains]))
    return sorted(found, key=lambda one: one.num_weights)


def _num_weights(evidence: Evidence, recipe: Recipe) -> int:
    """Of the layers that are quantized, as the run's file has them."""
    weights = evidence.runs_of(recipe.name)[0].weights
    layers = weights.layers if weights else ()
    return sum(layer.num_weights for layer in layers if layer.in_q is not None)


SECTIONS = {
    "evidence-by-size": by_size,
    "evidence-rank-correlations": rank_correlations,
}
