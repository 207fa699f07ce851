"""What a reader should know about runs that were read without complaint."""

import math
from collections.abc import Iterable
from typing import Any

from binaryrelax.lab.recipes import find_recipe, plain
from binaryrelax.lab.report.runs import FinishedRun


def without_copies(runs: list[FinishedRun]) -> tuple[list[FinishedRun], list[str]]:
    """The runs, each once, and notes: files that hold the same run, seeds that occur twice."""
    kept: dict[tuple[str, int], list[FinishedRun]] = {}
    copies = []
    for run in runs:
        known = kept.setdefault((run.name, run.seed), [])
        if any(_is_same(run, other) for other in known):
            copies.append(run.source)
        else:
            known.append(run)
    notes = []
    if copies:
        notes.append(f"Copies of a run that is counted once already: {_some(copies)}")
    for (name, seed), same in kept.items():
        if len(same) > 1:
            places = _some(run.source for run in same)
            notes.append(
                f"{name}, seed {seed}: {len(same)} different results, their mean counts: {places}"
            )
    return [run for same in kept.values() for run in same], notes


def remarks_about(runs: Iterable[FinishedRun]) -> list[str]:
    """A line on each run whose file contradicts itself, its recipe or the claim of the method."""
    checks = (_summary_disagrees, _settings_differ, _outside_q)
    found = ((run, check(run)) for run in runs for check in checks)
    return [f"{run.source}: {remark}" for run, remark in found if remark]


def _is_same(run: FinishedRun, other: FinishedRun) -> bool:
    return run.result["epochs"] == other.result["epochs"] and _digest(run) == _digest(other)


def _digest(run: FinishedRun) -> Any:
    return (run.result.get("weights") or {}).get("digest")


def _summary_disagrees(run: FinishedRun) -> str | None:
    summary, accuracies = run.result["summary"], run.accuracies
    best = max(accuracies[run.phase_two_epoch :], default=None)
    told = (summary["last"], summary.get("best_phase_two"))
    if not _close(told[0], accuracies[-1]) or not _close(told[1], best):
        return f"its summary (last {told[0]}, best {told[1]}) disagrees with its epochs"
    return None


def _settings_differ(run: FinishedRun) -> str | None:
    """Whether a run bears the name of a recipe, but other settings."""
    try:
        today = plain(find_recipe(run.name))
    except (ValueError, OverflowError):
        return None  # no recipe of ours, or one with numbers beyond measure
    told = run.result["recipe"]
    different = [key for key in today.keys() & told.keys() if not _same(today[key], told[key])]
    if not different:
        return None
    shown = ", ".join(f"{key}={told[key]} (today {today[key]})" for key in sorted(different))
    return f"its settings are not those of the recipe {run.name}: {shown}"


def _outside_q(run: FinishedRun) -> str | None:
    is_outside = run.is_quantized and run.result["summary"].get("in_q") is not True
    return "its final weights are not known to be in Q" if is_outside else None


def _same(a: Any, b: Any) -> bool:
    """Equal but for the last bits, which differ between machines (growth is computed)."""
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return math.isclose(a, b, rel_tol=1e-9) if numbers else a == b


def _close(a: float | None, b: float | None) -> bool:
    return a is b is None or (None not in (a, b) and math.isclose(a, b, abs_tol=1e-6))


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
