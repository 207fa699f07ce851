"""Going on with what a folder holds, which must be the run that was asked for."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine.checkpoint import checkpoints, load_newest
from binaryrelax.lab.engine.files import RESULT_NAME, read_json
from binaryrelax.lab.engine.job import Job, agree


def load_saved(job: Job, precision: str, note: Callable[[str], None]) -> dict[str, Any] | None:
    """The newest checkpoint in the job's folder that is whole; None if there is none.

    Raises:
        ValueError: the folder holds another run, finished or not, or a finished one whose network
            is lost.
    """
    saved = load_newest(job.folder, note)
    _refuse_difference(job.folder, saved, {**job.identity, "precision": precision})
    _refuse_lost_network(job)
    return saved


def refuse_other_runs(jobs: Iterable[Job], precision: str) -> None:
    """A `ValueError` before anything is done if a folder holds another run than its job.

    Or this one, finished, but without its network. What a job starts from may not be there yet: it
    is compared when the turn of the job comes.
    """
    for job in jobs:
        saved = load_newest(job.folder, note=lambda line: None)  # it is told when it is resumed
        _refuse_difference(job.folder, saved, {**job.settings, "precision": precision})
        _refuse_lost_network(job)


def refuse_losing_runs(jobs: Iterable[Job]) -> None:
    """A `ValueError` if a folder holds a result or a checkpoint, which a new run would replace."""
    for job in jobs:
        for path in (job.folder / RESULT_NAME, *checkpoints(job.folder)):
            if path.exists():
                whose = recipe_in(job.folder)
                raise ValueError(
                    f"{job.folder} holds a run{f' of {whose}' if whose else ''} "
                    f"({path.relative_to(job.folder)}); --resume goes on with it, --overwrite "
                    "begins anew"
                )


def recipe_in(folder: Path) -> str | None:
    """The name of the recipe of the run in the folder, finished or not; None if there is none."""
    run = _result_in(folder) or load_newest(folder, note=lambda line: None) or {}
    return run.get("recipe", {}).get("name")


def _refuse_difference(folder: Path, saved: dict[str, Any] | None, wanted: dict[str, Any]) -> None:
    runs = {"a finished run": _result_in(folder), "a half-done run": saved or {}}
    for kind, run in runs.items():
        # Results tell the precision under "environment", checkpoints of earlier versions nowhere.
        told = {**run.get("environment", {}), **run}
        differences = [
            _difference(key, told[key], ours)
            for key, ours in wanted.items()
            if key in told and not agree(key, told[key], ours)
        ]
        if differences:
            raise ValueError(
                f"{folder} holds {kind} with {' and '.join(differences)}; ask for the same, give "
                "another --out, or remove that folder to begin anew"
            )


def _refuse_lost_network(job: Job) -> None:
    """Trained again it may be another one: the result must not make way for it unasked."""
    lost = job.what_is_lost() if _result_in(job.folder) else None
    if lost:
        raise ValueError(
            f"{job.folder} holds a finished run of {job.recipe.name}, but {lost}; bring it back, "
            "or begin anew (--overwrite, or remove that folder)"
        )


def _result_in(folder: Path) -> dict[str, Any]:
    """The result in the folder; empty if there is none, or something else that may be replaced."""
    try:
        result = read_json(folder / RESULT_NAME)
        is_result = {type(result[key]) for key in ("recipe", "environment")} == {dict}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return result if is_result else {}


def _difference(key: str, theirs: Any, ours: Any) -> str:
    """What is in the folder and what was asked for, in words."""
    if key == "recipe":
        return _recipe_difference(theirs, ours)
    if key == "initial_checkpoint":
        return f"a start from {_start(theirs)} instead of {_start(ours)}"
    return f"--{key} {theirs} instead of {ours}"


def _recipe_difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Changed settings are part of the name, unless somebody has altered the recipe itself."""
    settings = ["name"] if theirs.get("name") != ours["name"] else sorted({*theirs, *ours})
    different = [key for key in settings if theirs.get(key) != ours.get(key)]
    return "recipe " + ", ".join(f"{k} {theirs.get(k)} instead of {ours.get(k)}" for k in different)


def _start(checkpoint: dict[str, str] | None) -> str:
    if checkpoint is None:
        return "random weights"
    return f"{checkpoint['name']} ({checkpoint['digest'][:8]})"
