"""What to train, and where: a network, and the float ancestor that it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from binaryrelax_lab.engine.run_folder import Identity, RunFolder, State
from binaryrelax_lab.files import FINAL_NAME, digest_of
from binaryrelax_lab.recipes import Recipe, find_recipe, plain
from binaryrelax_lab.results import Start, TrainingResult


@dataclass(frozen=True)
class Job:
    """What to train, and where its files go.

    Args:
        recipe: every setting.
        seed: all that is random follows from it.
        folder: the run folder.
        initial: the ``final.safetensors`` of the network to start from.

    Examples:
        >>> from pathlib import Path
        >>> from binaryrelax_lab.engine import Job
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> job = Job(find_recipe("demo-float"), seed=0, folder=Path("runs/demo-float"))
        >>> job.is_finished()  # the folder holds no result yet
        False
    """

    recipe: Recipe
    seed: int
    folder: Path
    initial: Path | None = None

    @cached_property
    def run_folder(self) -> RunFolder:
        """What is in the folder, read once."""
        return RunFolder(self.folder)

    def identity(self, precision: str | None = None) -> Identity:
        """What decides the result; the network to start from is looked at anew."""
        return Identity(plain(self.recipe), self.seed, _described(self.initial), precision)

    def finished_result(self) -> TrainingResult | None:
        """The result of this very job, if the folder holds it complete.

        The network that it started from may be gone, and so may its histograms.
        """
        if self.run_folder.result is None:  # then nothing need be read or compared
            return None
        is_finished = self.run_folder.state_for(self.identity()) is State.FINISHED
        return self.run_folder.result if is_finished else None

    def is_finished(self) -> bool:
        """Whether there is such a result."""
        return self.finished_result() is not None


def jobs_of(recipes: list[Recipe], *, seed: int, out: Path) -> list[Job]:
    """A job per recipe, in folders of `out` named after them; each may start from another."""
    jobs = []
    for recipe in recipes:
        initial = out / recipe.starts_from / FINAL_NAME if recipe.starts_from else None
        jobs.append(Job(recipe, seed, out / recipe.name, initial))
    return jobs


def job_with_ancestor(recipe: Recipe, *, seed: int, out: Path, initial: Path | None) -> list[Job]:
    """The job that fills the folder `out`, after the one of its float ancestor, if it needs one.

    The ancestor is trained inside `out`; its recipe is the one that `recipe` names.

    Args:
        recipe: of the network that is wanted.
        seed: of both.
        out: the run folder.
        initial: the ``final.safetensors`` of an ancestor that is trained already.

    Examples:
        >>> from pathlib import Path
        >>> from binaryrelax_lab.engine import job_with_ancestor
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> recipe = find_recipe("demo-binary")
        >>> jobs = job_with_ancestor(recipe, seed=0, out=Path("run"), initial=None)
        >>> [(job.recipe.name, job.folder.as_posix()) for job in jobs]
        [('demo-float', 'run/demo-float'), ('demo-binary', 'run')]
    """
    if recipe.starts_from is None or initial is not None:
        return [Job(recipe, seed, out, initial)]
    ancestor = find_recipe(recipe.starts_from)
    folder = out / ancestor.name
    before = job_with_ancestor(ancestor, seed=seed, out=folder, initial=None)
    return [*before, Job(recipe, seed, out, folder / FINAL_NAME)]


def _described(path: Path | None) -> Start | None:
    """Name and digest of a network; its folder is named after the recipe that made it.

    In a campaign that folder holds one for each seed. A file that is not there has no digest.
    """
    if path is None:
        return None
    folder = path.parent
    where = folder.name if not folder.name.startswith("seed") else "/".join(folder.parts[-2:])
    return Start(f"{where}/{path.name}", digest_of(path) if path.is_file() else None)
