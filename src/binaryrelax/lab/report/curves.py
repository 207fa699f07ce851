"""What is drawn of runs: the accuracy of each method after each epoch, and λ."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean
from typing import Any

from binaryrelax.lab.report.runs import FinishedRun


@dataclass(frozen=True)
class Curve:
    """Accuracies of one method by epoch; with several seeds the mean, and the limits around it.

    Args:
        projected: the accuracy if the weights were made hard, where it was measured and differs.
    """

    method: str
    label: str
    values: list[float]
    low: list[float]
    high: list[float]
    projected: list[float | None]
    num_seeds: int


@dataclass(frozen=True)
class Chart:
    """Curves over the same epochs.

    Args:
        strengths: λ at the end of each epoch of Phase I; None without a BinaryRelax among them.
    """

    curves: list[Curve]
    strengths: list[float] | None
    phase_two_epoch: int

    @property
    def num_epochs(self) -> int:
        """Those of the longest curve."""
        return max(len(curve.values) for curve in self.curves)

    def as_json(self) -> dict[str, Any]:
        """The data that a script needs to read values aloud; limits only where there are any."""
        return {
            "strengths": self.strengths and [float(f"{s:.3g}") for s in self.strengths],
            "curves": [_curve_json(curve) for curve in self.curves],
        }


def chart_of(groups: Sequence[Sequence[FinishedRun]]) -> Chart:
    """The chart with one curve for each group of runs, which differ in their seeds."""
    runs = [run for group in groups for run in group]
    relaxed = next((run for run in runs if run.is_relaxed), None)
    return Chart(
        curves=[curve_of(group) for group in groups],
        strengths=relaxed.finite_strengths if relaxed else None,
        phase_two_epoch=runs[0].phase_two_epoch,
    )


def curve_of(runs: Sequence[FinishedRun]) -> Curve:
    """The curve of runs that differ in their seeds; of several with the same seed the mean."""
    epochs = _by_epoch((run.seed, run.accuracies) for run in runs)
    hard = _by_epoch((run.seed, _projected(run)) for run in runs)
    return Curve(
        method=runs[0].method,
        label=runs[0].label,
        values=[round(fmean(values), 2) for values in epochs],
        low=[round(min(values), 2) for values in epochs],
        high=[round(max(values), 2) for values in epochs],
        projected=[round(fmean(values), 2) if values else None for values in hard],
        num_seeds=len({run.seed for run in runs}),
    )


def _by_epoch(curves: Iterable[tuple[int, list[float | None]]]) -> list[list[float]]:
    """For each epoch the values of all seeds that have one."""
    seeds: dict[int, list[list[float | None]]] = {}
    for seed, values in curves:
        seeds.setdefault(seed, []).append(values)
    means = [
        [fmean(values) if values else None for values in map(_present, zip_longest(*same))]
        for same in seeds.values()
    ]
    return [_present(values) for values in zip_longest(*means)]


def _projected(run: FinishedRun) -> list[float | None]:
    records = run.result["epochs"]
    return [r.get("accuracy_projected") if r.get("phase") == 1 else None for r in records]


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _curve_json(curve: Curve) -> dict[str, Any]:
    content = {"method": curve.method, "label": curve.label, "values": curve.values}
    if curve.num_seeds > 1:
        content |= {"low": curve.low, "high": curve.high, "seeds": curve.num_seeds}
    if any(value is not None for value in curve.projected):
        last = max(i for i, value in enumerate(curve.projected) if value is not None)
        content["hard"] = curve.projected[: last + 1]
    return content
