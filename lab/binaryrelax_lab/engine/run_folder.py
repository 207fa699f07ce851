"""The folder of a run: its files, its lock and its state. Nobody else looks into it."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from torch import Tensor

from binaryrelax_lab.engine.checkpoint import (
    checkpoints,
    forget_checkpoints,
    load_newest,
    save_checkpoint,
)
from binaryrelax_lab.engine.ranks import Ranks
from binaryrelax_lab.files import (
    CHECKPOINTS_NAME,
    FINAL_NAME,
    HISTOGRAMS_NAME,
    RESULT_NAME,
    digest_of,
    read_json,
    remove_unfinished,
    write_json,
    write_tensors,
)
from binaryrelax_lab.recipes import RecipeName
from binaryrelax_lab.results import Start, TrainingResult, WeightHistograms, result_from_json

LOCK_NAME = ".lock"
MOST_TRIES = 1000  # to get a lock whose folder others remove, at their end, at any moment
TRIES_IF_IN_USE, NAP = 3, 0.01  # seconds
WITHOUT_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}  # as some disks say


class State(Enum):
    """What a folder holds, seen from a job that is to be done there."""

    EMPTY = "empty"
    HALF_DONE = "half done"
    FINISHED = "finished"
    OTHER = "another run's"
    DAMAGED = "finished, without its network or a result that can be used"


class HoldsRun(ValueError):
    """A new run would replace the one in its folder."""


class HoldsOtherRun(ValueError):
    """The run in a folder is not the one that was to go on."""


class LostNetwork(ValueError):
    """Of a finished run the network is gone, or another one, or its result cannot be used.

    Trained again it may differ: it must not make way for that unasked.
    """


class FolderInUse(ValueError):
    """Another process trains in a folder."""


@dataclass(frozen=True)
class Identity:
    """What decides a result.

    Args:
        recipe: all settings, as plain data.
        start: the network that it begins with; None for random weights.
        precision: None where it is not told.
    """

    recipe: Mapping[str, Any]
    seed: int | None
    start: Start | None
    precision: str | None = None

    def to_checkpoint(self) -> dict[str, Any]:
        """As plain data."""
        start = None if self.start is None else vars(self.start)
        told = {"recipe": self.recipe, "seed": self.seed, "initial_checkpoint": start}
        return told | {"precision": self.precision}

    @staticmethod
    def of_content(told: Mapping[str, Any]) -> Identity:
        """Of what a checkpoint or a result tells, be it whole or not.

        Results tell the precision under "environment", checkpoints of earlier versions nowhere.
        """
        start, known = told.get("initial_checkpoint"), None
        if isinstance(start, dict):
            known = Start(str(start.get("name")), start.get("digest"))
        precision = (told.get("environment") or told).get("precision")
        return Identity(told["recipe"], told.get("seed"), known, precision)

    def differences(self, theirs: Identity, *, with_start: bool) -> list[str]:
        """What theirs has instead of ours, in words."""
        found = []
        if theirs.recipe != self.recipe:
            found.append(_recipe_difference(theirs.recipe, self.recipe))
        if theirs.seed not in (None, self.seed):
            found.append(f"seed {theirs.seed} instead of {self.seed}")
        if with_start and not _is_same_start(theirs.start, self.start):
            found.append(f"a start from {_shown(theirs.start)} instead of {_shown(self.start)}")
        if None not in (theirs.precision, self.precision) and theirs.precision != self.precision:
            found.append(f"precision {theirs.precision} instead of {self.precision}")
        return found


class RunFolder:
    """A run folder, which is read once: later answers are those of the first look.

    What is written through it is known to it.

    Args:
        path: of the folder; it need not be there yet.

    Examples:
        >>> from pathlib import Path
        >>> from binaryrelax_lab.engine import RunFolder
        >>> folder = RunFolder(Path("runs/demo-float"))
        >>> folder.network.name, folder.result  # no run has finished there
        ('final.safetensors', None)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._damages: list[str] = []

    @property
    def network(self) -> Path:
        """The file with x and the buffers."""
        return self.path / FINAL_NAME

    @cached_property
    def _told(self) -> dict[str, Any] | None:
        """What the result of a finished run tells, be it whole or not.

        None if there is none, or something else of that name, which may be replaced.
        """
        try:
            content = read_json(self.path / RESULT_NAME)
        except (OSError, ValueError):
            return None
        is_of_a_run = isinstance(content, dict) and all(
            isinstance(content.get(key), dict) for key in ("recipe", "environment")
        )
        return content if is_of_a_run else None

    @cached_property
    def _result_or_problem(self) -> TrainingResult | str | None:
        if self._told is None:
            return None
        try:
            return result_from_json(self._told)
        except ValueError as error:
            return f"its {RESULT_NAME} cannot be used: {error}"

    @property
    def result(self) -> TrainingResult | None:
        """That of a finished run, if it can be used."""
        found = self._result_or_problem
        return found if isinstance(found, TrainingResult) else None

    @cached_property
    def _checkpoint(self) -> dict[str, Any] | None:
        return load_newest(self.path, self._damages.append)

    @cached_property
    def lost(self) -> str | None:
        """What is wrong with a finished run; None if its network is there, and its result."""
        result = self._result_or_problem
        if not isinstance(result, TrainingResult):
            return result
        if not self.network.is_file():
            return f"its {FINAL_NAME} is missing"
        if result.digest is None:
            return f"its {RESULT_NAME} does not tell the digest of its network"
        if result.digest != digest_of(self.network):
            return (
                f"{FINAL_NAME} is not the one that its {RESULT_NAME} tells of: its digest differs"
            )
        return None

    def finished(self) -> TrainingResult:
        """The result of a finished run whose network is there; a `ValueError` if there is none."""
        if self.lost:
            raise LostNetwork(
                f"{self.path} holds a finished run of {self.recipe_name}, but {self.lost}"
            )
        if self.result is None:
            raise ValueError(
                f"{self.path} holds no finished run: there is no {RESULT_NAME} of one; give the "
                "folder that `binaryrelax train` has filled"
            )
        return self.result

    @property
    def recipe_name(self) -> RecipeName | None:
        """That of the run in it, finished or not."""
        run = self._told or self._checkpoint
        return RecipeName(run["recipe"].get("name", "?")) if run else None

    @property
    def is_begun(self) -> bool:
        """Whether a run has left anything here, whole or not."""
        return self._told is not None or bool(checkpoints(self.path))

    def state_for(self, ours: Identity, *, with_start: bool = True) -> State:
        """What the folder is to the run that is to be done here.

        Args:
            with_start: also compare the networks that both begin with; not before ours is there.
        """
        if self._other_run(ours, with_start=with_start):
            return State.OTHER
        if self._told is not None:
            return State.DAMAGED if self.lost else State.FINISHED
        return State.HALF_DONE if self._checkpoint is not None else State.EMPTY

    def refuse_other(self, ours: Identity, *, with_start: bool = True) -> None:
        """A `ValueError` if it holds another run than ours, or ours without its network."""
        problem = self._other_run(ours, with_start=with_start)
        if problem:
            raise HoldsOtherRun(problem)
        if self._told is not None:
            self.finished()

    def at_stake(self) -> list[Path]:
        """What a new run would replace: a result, or anything of that name, and checkpoints."""
        paths = (self.path / RESULT_NAME, *checkpoints(self.path))
        return [path for path in paths if path.exists()]

    def refuse_to_lose(self) -> None:
        """A `ValueError` if a new run would replace something."""
        for path in self.at_stake():
            whose = f" of {self.recipe_name}" if self.recipe_name else ""
            raise HoldsRun(f"{self.path} holds a run{whose} ({path.relative_to(self.path)})")

    def take_checkpoint(self, note: Callable[[str], None]) -> dict[str, Any] | None:
        """The newest that is whole, once; `note` is told of those that were passed over."""
        saved = self._checkpoint
        for line in self._damages:
            note(line)
        self.look_again()  # it is large
        return saved

    def prepare(self, *, keep_checkpoints: bool) -> None:
        """Makes the folder, and takes away what could be mistaken for the new run's."""
        (self.path / CHECKPOINTS_NAME).mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.path)
        self.forget(keep_checkpoints=keep_checkpoints)

    def forget(self, *, keep_checkpoints: bool = False) -> None:
        """Removes the result, and the checkpoints."""
        (self.path / RESULT_NAME).unlink(missing_ok=True)
        if not keep_checkpoints:
            forget_checkpoints(self.path)
        self.look_again()

    def save(self, num_steps: int, content: dict[str, Any]) -> None:
        """Writes a checkpoint."""
        save_checkpoint(self.path, num_steps, content)

    def write_network(self, tensors: dict[str, Tensor], histograms: WeightHistograms) -> None:
        """The files that the result tells of."""
        write_tensors(self.network, tensors)
        write_json(self.path / HISTOGRAMS_NAME, histograms.to_json())

    def finish(self, result: TrainingResult) -> None:
        """Writes the result, last: a folder that has it is complete."""
        write_json(self.path / RESULT_NAME, result.to_json())
        forget_checkpoints(self.path)
        self.look_again()

    def look_again(self) -> None:
        """Forgets what it has read: others may have written since."""
        for name in ("_told", "_result_or_problem", "_checkpoint", "lost"):
            self.__dict__.pop(name, None)
        self._damages.clear()

    def _other_run(self, ours: Identity, *, with_start: bool) -> str | None:
        """How the run in it differs from ours; None if it does not."""
        found = {
            "a finished run": self._told and Identity.of_content(self._told),
            "a half-done run": self._checkpoint and Identity.of_content(self._checkpoint),
        }
        for kind, theirs in found.items():
            differences = ours.differences(theirs, with_start=with_start) if theirs else []
            if differences:
                return f"{self.path} holds {kind} with {' and '.join(differences)}"
        return None


@contextmanager
def sole_use(folders: Iterable[Path], ranks: Ranks) -> Iterator[None]:
    """Inside, no other process gets these folders; processes that train together share them.

    The locks are the kernel's, which opens them when the process ends, however it does. Nothing is
    left behind: neither their files nor folders in which nothing was written.

    Raises:
        FolderInUse: another process has one of them.
    """
    with ExitStack() as held:

        def take() -> None:
            if ranks.is_first:
                for folder in folders:
                    held.enter_context(_locked(folder))

        ranks.in_turn(take)  # all of them hear that the first one must not
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = _acquired(folder)
    try:
        yield
    finally:
        (folder / LOCK_NAME).unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):  # something was written into it
            for empty in made:
                empty.rmdir()


def _acquired(folder: Path) -> FileLock:
    """The lock of a folder; on a disk that knows none it is up to the user."""
    lock = FileLock(folder / LOCK_NAME, timeout=0)
    for attempt in range(MOST_TRIES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            if attempt >= TRIES_IF_IN_USE:  # at first, it may be a file that its owner just removed
                raise FolderInUse(f"{folder} is in use: another process trains there") from None
            time.sleep(NAP)
        except (FileNotFoundError, FileExistsError):
            continue
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
            return lock
        else:
            return lock
    raise ValueError(f"{folder} cannot be written; give another folder")


def _recipe_difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Changed settings are part of the name, unless somebody has altered the recipe itself."""
    settings = ["name"] if theirs.get("name") != ours["name"] else sorted({*theirs, *ours})
    different = [key for key in settings if theirs.get(key) != ours.get(key)]
    return "recipe " + ", ".join(f"{k} {theirs.get(k)} instead of {ours.get(k)}" for k in different)


def _is_same_start(theirs: Start | None, ours: Start | None) -> bool:
    """Of the networks only the bytes matter, not where they lie; if our file is gone, its name."""
    if theirs is None or ours is None:
        return theirs is ours
    return theirs.digest == ours.digest if ours.digest else theirs.name == ours.name


def _shown(start: Start | None) -> str:
    return "random weights" if start is None else f"{start.name} ({str(start.digest)[:8]})"
