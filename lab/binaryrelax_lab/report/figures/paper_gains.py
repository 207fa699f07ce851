"""What BinaryRelax gains in each row of Tables 1, 2 and 3, in the paper and here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from binaryrelax_lab.recipes import NETWORK_NAMES, TABLES, Recipe
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import mean_text, table_of_gains
from binaryrelax_lab.report.figures.paper_cells import DATASETS, TOLERANCES
from binaryrelax_lab.report.figures.schedules import BITS
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import Figure, best, last, spread_of


def mean_of_phase_two(run: RunResult) -> float:
    """The mean accuracy over all epochs of Phase II, or of the same epochs without one."""
    return fmean(record.accuracy for record in run.phase_two)


FIGURES: dict[str, Figure] = {
    "last epoch": last,
    "best of Phase II": best,
    "mean of Phase II": mean_of_phase_two,
}
Row = dict[str, Recipe]  # by method


@dataclass(frozen=True)
class Lead:
    """By how much one recipe is ahead of another of the same dataset.

    Args:
        dataset: which sets the tolerance.
        by: the mean over seeds by each of `FIGURES`.
        num_seeds: that both have.
    """

    dataset: str
    by: Mapping[str, float]
    num_seeds: int = 1

    @property
    def is_behind(self) -> bool:
        """By each figure, by more than the tolerance."""
        return all(value < -TOLERANCES[self.dataset] for value in self.by.values())


@dataclass(frozen=True)
class Gain:
    """BinaryRelax against its baseline on one network: the paper's gain, and ours by seed.

    Args:
        size: the number of quantized weights.
    """

    dataset: str
    network: str
    bits: str
    size: int
    paper: float
    ours: Mapping[str, Sequence[float]]

    @property
    def lead(self) -> Lead:
        """Ours as means over seeds."""
        by = {name: fmean(values) for name, values in self.ours.items()}
        return Lead(self.dataset, by, self.num_seeds)

    @property
    def num_seeds(self) -> int:
        """That both recipes have."""
        return min(map(len, self.ours.values()))


def rows_of(dataset: str) -> dict[str, Row]:
    """The rows of a table of the paper by the key of the network."""
    return {row[0].network: {r.method: r for r in row} for row in TABLES[dataset].rows}


def lead_of(evidence: Evidence, dataset: str, ours: Recipe, theirs: Recipe) -> Lead | None:
    """One recipe against another, over the seeds that both have; None if there are none."""
    found = {
        name: spread_of(evidence.differences((ours.name, theirs.name), figure))
        for name, figure in FIGURES.items()
    }
    known = {name: spread.mean for name, spread in found.items() if spread}
    if len(known) < len(FIGURES):
        return None
    return Lead(dataset, known, min(spread.count for spread in found.values() if spread))


def all_gains(evidence: Evidence) -> list[Gain]:
    """Every comparison of the paper's tables that has been run."""
    found = []
    for dataset in DATASETS:
        for network, row in rows_of(dataset).items():
            for bits, (baseline, relaxed) in BITS.items():
                pair = row[relaxed].name, row[baseline].name
                ours = {name: evidence.differences(pair, f) for name, f in FIGURES.items()}
                if all(ours.values()):
                    paper = (row[relaxed].paper_accuracy or 0) - (row[baseline].paper_accuracy or 0)
                    size = num_quantized_weights(evidence.runs_of(row[relaxed].name))
                    found.append(Gain(dataset, network, bits, size, paper, ours))
    return found


def not_run_yet(evidence: Evidence) -> str:
    """The networks of each table that lack a comparison."""
    known = {(gain.dataset, gain.network) for gain in all_gains(evidence)}
    shown = []
    for dataset, title in DATASETS.items():
        names = [NETWORK_NAMES[n] for n in rows_of(dataset) if (dataset, n) not in known]
        shown += [f"{title}: {', '.join(names)}"] if names else []
    return "; ".join(shown) or "none"


def num_gains_of_the_paper() -> int:
    """How many comparisons its tables hold."""
    return sum(len(rows_of(dataset)) * len(BITS) for dataset in DATASETS)


def num_quantized_weights(runs: Sequence[RunResult]) -> int:
    """Of the network that the runs trained: of all convolutions; 0 where no run tells."""
    told = [sum(layer.num_weights for layer in run.weights.layers) for run in runs if run.weights]
    return max(told, default=0)


def counted_by(num_ahead: Callable[[str], int], total: int) -> str:
    """How many of all are ahead by each figure, in words."""
    return ", ".join(f"by the {name} {num_ahead(name)} of {total}" for name in FIGURES)


def num_ahead_of(leads: Sequence[Lead]) -> Callable[[str], int]:
    """What counts the leads above zero, as two digits show them."""
    return lambda name: sum(round(lead.by[name], 2) > 0 for lead in leads)


def gains_table(evidence: Evidence) -> str:
    """A row for each comparison: the paper's gain and ours by three figures."""
    rows: list[list[str | Sequence[float]]] = []
    for gain in all_gains(evidence):
        words = f"{DATASETS[gain.dataset]}, {NETWORK_NAMES[gain.network]}, {gain.bits}"
        ours = [gain.ours[name] for name in FIGURES]
        rows.append([words, f"{gain.size / 1e6:.2f}", mean_text([gain.paper]), *ours])
    headings = ("BinaryRelax − its baseline", "million weights", "paper")
    return table_of_gains((*headings, *FIGURES), rows)


SECTIONS = {"checklist-gains": gains_table, "checklist-not-run": not_run_yet}
