"""Reading results: of one run folder, or of all below a folder, with a line on what looks wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from binaryrelax_lab.files import CHECKPOINTS_NAME, HISTOGRAMS_NAME, RESULT_NAME, read_json
from binaryrelax_lab.results.any_result import result_from_json
from binaryrelax_lab.results.consistency import contradictions, without_copies
from binaryrelax_lab.results.language_result import LanguageResult
from binaryrelax_lab.results.run_result import RunResult
from binaryrelax_lab.results.training_result import TrainingResult
from binaryrelax_lab.results.weight_histograms import WeightHistograms

LOOKED_FOR = f"results/<dataset>/<recipe>/seed<k>.json, or run folders with a {RESULT_NAME}"


@dataclass(frozen=True)
class Collection:
    """The runs that were found, and notes: a line on each file left out or worth a second look.

    Args:
        runs: on images.
        language: on text.
    """

    runs: list[RunResult]
    notes: list[str]
    language: list[LanguageResult] = field(default_factory=list)


def read_run(folder: Path) -> RunResult:
    """The finished run in a folder, with its histograms if there are any.

    Args:
        folder: the run folder.

    Raises:
        OSError: there is no ``result.json``.
        ValueError: it is not that of a run.

    Examples:
        >>> from dataclasses import replace
        >>> from pathlib import Path
        >>> from binaryrelax_lab.data import load_dataset
        >>> from binaryrelax_lab.engine import Job, train
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> from binaryrelax_lab.results import read_run
        >>> data = load_dataset("fashion-mnist-12k")
        >>> few = {"train_images": data.train_images[:128], "train_labels": data.train_labels[:128]}
        >>> job = Job(find_recipe("demo-float@2"), seed=0, folder=Path("run"))
        >>> result = train(job, replace(data, **few))
        >>> read_run(Path("run")).summary == result.summary
        True
    """
    result = RunResult.from_json(read_json(folder / RESULT_NAME))
    histograms = folder / HISTOGRAMS_NAME
    if not histograms.is_file():
        return result
    return replace(result, histograms=WeightHistograms.from_json(read_json(histograms)))


def collect_runs(folder: Path) -> Collection:
    """Reads every result below `folder`.

    Args:
        folder: may hold other files too, at any depth.

    Raises:
        ValueError: it holds no result; the message says what was looked for.

    Examples:
        >>> from dataclasses import replace
        >>> from pathlib import Path
        >>> from binaryrelax_lab.data import load_dataset
        >>> from binaryrelax_lab.engine import Job, train
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> from binaryrelax_lab.results import collect_runs
        >>> data = load_dataset("fashion-mnist-12k")
        >>> few = {"train_images": data.train_images[:128], "train_labels": data.train_labels[:128]}
        >>> for seed in (0, 1):
        ...     job = Job(find_recipe("demo-float@2"), seed=seed, folder=Path(f"runs/seed{seed}"))
        ...     result = train(job, replace(data, **few))
        >>> [(run.recipe.name, run.seed) for run in collect_runs(Path("runs")).runs]
        [('demo-float@2', 0), ('demo-float@2', 1)]
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; looked for {LOOKED_FOR}")
    runs: list[TrainingResult] = []
    notes = []
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
    return Collection(
        runs=[run for run in runs if isinstance(run, RunResult)],
        notes=notes + copies + contradictions(runs),
        language=[run for run in runs if isinstance(run, LanguageResult)],
    )


def _json_files(folder: Path) -> Iterable[Path]:
    """What may hold a result, by its name: other evidence may lie beside; no hidden files."""
    for path in sorted(folder.rglob("*.json")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not is_hidden and (path.name == RESULT_NAME or path.name.startswith("seed")):
            yield path


def _read(path: Path, source: str) -> TrainingResult:
    try:
        content = json.loads(path.read_bytes(), parse_int=_whole_number)
    except ValueError as error:
        raise ValueError(f"it is not valid JSON ({error})") from error
    result = result_from_json(content, source)
    if not _is_writable(content):
        raise ValueError("it holds characters that do not exist")  # half of a surrogate pair
    return result


def _unfinished(folder: Path) -> list[str]:
    """Run folders that training has begun to fill."""
    begun = sorted(path.parent for path in folder.rglob(CHECKPOINTS_NAME) if path.is_dir())
    return [
        f"{path.relative_to(folder).as_posix()} is left out: its training is not finished"
        for path in begun
        if not (path / RESULT_NAME).exists()
    ]


def _first(notes: list[str]) -> str:
    return f" ({notes[0]})" if notes else ""


def _is_writable(content: Any) -> bool:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole_number(digits: str) -> int:
    """A number of hundreds of digits is none of ours, and no float could be compared with it."""
    if not math.isfinite(float(digits)):
        raise ValueError("a number beyond measure")
    return int(digits)
