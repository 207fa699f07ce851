"""All results below a folder, and a line about everything that is not one or looks wrong."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine import RESULT_NAME
from binaryrelax.lab.engine.checkpoint import FOLDER_NAME
from binaryrelax.lab.report.remarks import remarks_about, without_copies
from binaryrelax.lab.report.runs import FinishedRun

LOOKED_FOR = f"results/<dataset>/<recipe>/seed<k>.json, or run folders with a {RESULT_NAME}"
NEEDED = {
    "recipe": dict,
    "seed": int,
    "epochs": list,
    "summary": dict,
}
NEEDED_OF_RECIPE = {
    "name": str,
    "dataset": str,
    "network": str,
    "method": str,
    "epochs": int,
    "phase_two_epoch": int,
}
OPTIONAL = {"weights": dict, "environment": dict, "initial_checkpoint": dict}


@dataclass(frozen=True)
class Collection:
    """The runs that were found, and notes: a line on each file left out or worth a second look."""

    runs: list[FinishedRun]
    notes: list[str]


def collect_runs(folder: Path) -> Collection:
    """Reads every result below `folder`; an empty one is an error that says what was looked for."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; looked for {LOOKED_FOR}")
    runs, notes = [], []
    for path in _json_files(folder):
        name = path.relative_to(folder).as_posix()
        source = name.encode(errors="replace").decode()  # a name may be any bytes
        try:
            runs.append(_read(path, source))
        except (OSError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            notes.append(f"{source} is left out: {reason}")
    notes += _unfinished(folder)
    if not runs:
        raise ValueError(
            f"{folder} holds no result of a run; looked for {LOOKED_FOR}{_first(notes)}"
        )
    runs, copies = without_copies(runs)
    return Collection(runs, notes + copies + remarks_about(runs))


def problem_of(result: Any) -> str | None:
    """Why this is not the content of a result file; None if it is."""
    if not isinstance(result, dict):
        return "it is no result of a run"
    wrong = _wrong_kind(result, NEEDED)
    if wrong:
        return f"it is no result of a run ({wrong})"
    wrong = _wrong_kind(result["recipe"], NEEDED_OF_RECIPE)
    if wrong or "quantizer" not in result["recipe"]:
        return f"its recipe is not complete ({wrong or 'quantizer is missing'})"
    wrong = _wrong_kind({k: v for k, v in result.items() if v is not None}, OPTIONAL, needed=False)
    return wrong or _wrong_numbers(result) or _wrong_layers(result) or _wrong_circumstances(result)


def _json_files(folder: Path) -> Iterable[Path]:
    """What may hold a result, by its name: other evidence may lie beside; no hidden files."""
    for path in sorted(folder.rglob("*.json")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not is_hidden and (path.name == RESULT_NAME or path.name.startswith("seed")):
            yield path


def _read(path: Path, source: str) -> FinishedRun:
    try:
        result = json.loads(path.read_bytes(), parse_int=_whole_number)
    except ValueError as error:
        raise ValueError(f"it is not valid JSON ({error})") from error
    problem = problem_of(result) or _unwritable(result)
    if problem:
        raise ValueError(problem)
    return FinishedRun(result, source=source)


def _unfinished(folder: Path) -> list[str]:
    """Run folders that training has begun to fill."""
    begun = sorted(path.parent for path in folder.rglob(FOLDER_NAME) if path.is_dir())
    return [
        f"{path.relative_to(folder).as_posix()} is left out: its training is not finished"
        for path in begun
        if not (path / RESULT_NAME).exists()
    ]


def _first(notes: list[str]) -> str:
    return f" ({notes[0]})" if notes else ""


def _wrong_kind(content: dict[str, Any], kinds: dict[str, type], needed: bool = True) -> str | None:
    for key, kind in kinds.items():
        if key not in content and needed:
            return f"{key} is missing"
        if key in content and not isinstance(content[key], kind):
            return f"{key} should be {kind.__name__}"
    return None


def _wrong_numbers(result: dict[str, Any]) -> str | None:
    records, summary = result["epochs"], result["summary"]
    if not records or not all(isinstance(record, dict) for record in records):
        return "it has no epochs"
    for number, record in enumerate(records):
        if not _is_number(record.get("accuracy")):
            return f"epoch {number} has no accuracy"
        optional = [record.get(key) for key in ("accuracy_projected", "accuracy_top5", "strength")]
        if not all(value in (None, "inf") or _is_number(value) for value in optional):
            return f"epoch {number} holds something else than numbers"
    best = summary.get("best_phase_two")
    if not _is_number(summary.get("last")) or not (best is None or _is_number(best)):
        return "its summary has no accuracy of the last epoch, or a wrong best one"
    return None


def _wrong_layers(result: dict[str, Any]) -> str | None:
    layers = (result.get("weights") or {}).get("layers", [])
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        return "its layers are not a list of records"
    return None


def _wrong_circumstances(result: dict[str, Any]) -> str | None:
    seconds, commit = result.get("seconds"), (result.get("environment") or {}).get("git_commit")
    if not (seconds is None or _is_number(seconds)):
        return "its seconds are not a number"
    if not isinstance(commit, str | None):
        return "its git_commit is not a name"
    if not isinstance(result["summary"].get("in_q"), bool | None):
        return "its in_q is neither true nor false"
    return None


def _unwritable(result: Any) -> str | None:
    try:
        json.dumps(result, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "it holds characters that do not exist"  # half of a surrogate pair
    return None


def _whole_number(digits: str) -> int:
    """A number of hundreds of digits is none of ours, and no float could be compared with it."""
    if not math.isfinite(float(digits)):
        raise ValueError("a number beyond measure")
    return int(digits)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
