"""Whether the paper's larger networks gain more: pairs of networks, and what chance would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations
from math import nan

from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import percent
from binaryrelax_lab.report.figures.paper_cells import NOT_RUN
from binaryrelax_lab.report.figures.paper_gains import FIGURES, Gain, all_gains, counted_by
from binaryrelax_lab.report.figures.paper_verdicts import (
    CONFIRMED,
    CONTRADICTED,
    UNDECIDED,
    WIDE,
    Verdict,
    seed_note,
)
from binaryrelax_lab.results.statistics import LEVEL

Pairs = Sequence[tuple[Gain, Gain]]  # of one table and width; the first should gain more


def larger_gain_on_wide_networks(evidence: Evidence) -> Verdict:
    """The gain on a wide ResNet against that on every other network of the table."""
    pairs = _pairs_of_gains(evidence)
    kept = [(w, o) for w, o in pairs if w.network in WIDE and o.network not in WIDE]
    return _verdict_of_pairs(kept, "wide")


def larger_gain_on_larger_networks(evidence: Evidence) -> Verdict:
    """The same of every pair of networks, by the number of weights."""
    pairs = _pairs_of_gains(evidence)
    return _verdict_of_pairs([(a, b) for a, b in pairs if a.size > b.size], "larger")


def _pairs_of_gains(evidence: Evidence) -> list[tuple[Gain, Gain]]:
    """Gains of two networks in the same table and at the same width, in both orders."""
    gains = all_gains(evidence)
    alike = [
        (one, other)
        for one, other in combinations(gains, 2)
        if (one.dataset, one.bits) == (other.dataset, other.bits)
    ]
    return alike + [(other, one) for one, other in alike]


def _verdict_of_pairs(found: Pairs, kind: str) -> Verdict:
    """Confirmed if all pairs are in order, contradicted if at most half are.

    Both by each figure, and only if shuffled networks would hardly do the same.
    """
    if not found:
        return Verdict(NOT_RUN, "")
    counts = {name: num_in_order(found, name) for name in FIGURES}
    at_least, at_most = zip(*(chances(found, name) for name in FIGURES), strict=True)
    status = UNDECIDED
    if min(counts.values()) == len(found) and max(at_least) < LEVEL:
        status = CONFIRMED
    elif max(counts.values()) <= len(found) / 2 and max(at_most) < LEVEL:
        status = CONTRADICTED
    papers = sum(large.paper > small.paper for large, small in found)
    networks = {(gain.dataset, gain.network): gain.num_seeds for pair in found for gain in pair}
    why = (
        f"The {kind} network has the larger gain {counted_by(counts.__getitem__, len(found))}; "
        f"in the paper's own figures {papers} of {len(found)}. Shuffled networks come out as low "
        f"in {percent(min(at_most), 0)} to {percent(max(at_most), 0)} of cases. Networks: "
        f"{seed_note(list(networks.values()))}"
    )
    return Verdict(status, why)


def num_in_order(found: Pairs, name: str) -> int:
    """In how many pairs the first gains more by a figure."""
    return sum(first.lead.by[name] > second.lead.by[name] for first, second in found)


def chances(found: Pairs, name: str) -> tuple[float, float]:
    """The shares of all orders of the networks with at least, and at most, as many in order.

    Networks of a table change places with all their gains: their widths are not independent.
    """
    totals = Counter({0: 1})
    for dataset in sorted({first.dataset for first, _ in found}):
        counts = _counts_of_orders([pair for pair in found if pair[0].dataset == dataset], name)
        joined: Counter[int] = Counter()
        for total, times in totals.items():
            for count, more in counts.items():
                joined[total + count] += times * more
        totals = joined
    seen, orders = num_in_order(found, name), totals.total()
    at_least = sum(times for count, times in totals.items() if count >= seen) / orders
    at_most = sum(times for count, times in totals.items() if count <= seen) / orders
    return at_least, at_most


def _counts_of_orders(pairs: Pairs, name: str) -> Counter[int]:
    """How often the orders of the networks of one table have how many pairs in order."""
    gains = {(gain.network, gain.bits): gain.lead.by[name] for pair in pairs for gain in pair}
    networks = sorted({network for network, _ in gains})
    counts: Counter[int] = Counter()
    for order in permutations(networks):
        place = dict(zip(networks, order, strict=True))

        def moved(gain: Gain, place: dict[str, str] = place) -> float:
            return gains.get((place[gain.network], gain.bits), nan)  # nan: in order with nothing

        counts[sum(moved(first) > moved(second) for first, second in pairs)] += 1
    return counts
