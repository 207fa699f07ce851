"""What a reader should know about runs that were read without complaint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

from binaryrelax_lab.recipes import find_recipe, plain
from binaryrelax_lab.results.training_result import TrainingResult

R = TypeVar("R", bound=TrainingResult)


def without_copies(runs: list[R]) -> tuple[list[R], list[str]]:
    """The runs, each once, and notes: files that hold the same run, seeds that occur twice."""
    kept: dict[tuple[str, int], list[R]] = {}
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


def contradictions(runs: Iterable[TrainingResult]) -> list[str]:
    """A line on each run whose file contradicts itself, its recipe or the claim of the method."""
    checks = (_summary_disagrees, _settings_differ, _outside_q)
    found = ((run, check(run)) for run in runs for check in checks)
    return [f"{run.source}: {problem}" for run, problem in found if problem]


def _is_same(run: TrainingResult, other: TrainingResult) -> bool:
    return run.epochs == other.epochs and run.digest == other.digest


def _summary_disagrees(run: TrainingResult) -> str | None:
    best_of = min if run.IS_LESS_BETTER else max
    best = best_of((record.score for record in run.phase_two), default=None)
    if not _close(run.last, run.epochs[-1].score) or not _close(run.best, best):
        return f"its summary (last {run.last}, best {run.best}) disagrees with its epochs"
    return None


def _settings_differ(run: TrainingResult) -> str | None:
    """Whether a run bears the name of a recipe, but other settings."""
    try:
        today = plain(find_recipe(run.name))
    except (ValueError, OverflowError):
        return None  # no recipe of ours, or one with numbers beyond measure
    told = run.recipe.settings
    different = [key for key in today.keys() & told.keys() if not _same(today[key], told[key])]
    if not different:
        return None
    shown = ", ".join(f"{key}={told[key]} (today {today[key]})" for key in sorted(different))
    return f"its settings are not those of the recipe {run.name}: {shown}"


def _outside_q(run: TrainingResult) -> str | None:
    is_outside = run.recipe.is_quantized and run.summary.in_q is not True
    return "its final weights are not known to be in Q" if is_outside else None


def _same(a: Any, b: Any) -> bool:
    """Equal but for the last bits, which differ between machines (growth is computed)."""
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return math.isclose(a, b, rel_tol=1e-9) if numbers else bool(a == b)


def _close(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else math.isclose(a, b, abs_tol=1e-6)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
