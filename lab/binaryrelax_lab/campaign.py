"""Filling tables: all cells that are missing, several networks side by side on one GPU."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from binaryrelax_lab.data import ImageSource
from binaryrelax_lab.engine import (
    FINAL_NAME,
    RESULT_NAME,
    Diverged,
    Job,
    Listener,
    Machine,
    Material,
    RunOptions,
    RunStopped,
    read_json,
    refuse_other_data,
    train,
    write_atomically,
)
from binaryrelax_lab.recipes import (
    LANGUAGE_SEARCHES,
    LANGUAGE_TABLES,
    OUR_TABLES,
    SEARCHES,
    TABLES,
    Recipe,
)
from binaryrelax_lab.results import result_from_json

RESERVE_SECONDS = 15.0  # kept for the last checkpoints
LONGEST_NAP = 1.0  # seconds: a signal that another thread gets does not wake this one
CAMPAIGNS: dict[str, tuple[Recipe, ...]] = {
    **{name: table.recipes for name, table in (TABLES | OUR_TABLES).items()},
    **SEARCHES,
    **LANGUAGE_TABLES,
    **LANGUAGE_SEARCHES,
}


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The runs of one or several tables.

    Args:
        recipes: their cells, of one dataset, and the float networks that they start from.
        out: run folders go to ``runs/RECIPE/seedK`` of it, results to
            ``results/DATASET/RECIPE/seedK.json``.
        only: take the runs whose RECIPE or RECIPE/seedK matches one of these patterns, and the
            float ancestors that they need.
        num_seeds: that many of each cell, from `first_seed` on.
    """

    recipes: tuple[Recipe, ...]
    out: Path
    only: tuple[str, ...] = ("*",)
    num_seeds: int = 1
    first_seed: int = 0

    @property
    def dataset(self) -> str:
        """The images that all of its networks are trained on."""
        return self.recipes[0].dataset

    def jobs(self) -> list[Job]:
        """All cells, float ancestors first, then row by row and seed by seed."""
        ordered = sorted(self.recipes, key=lambda recipe: recipe.starts_from is not None)
        every = [self._job(recipe, seed) for recipe in ordered for seed in self._seeds]
        chosen = [job for job in every if self._is_chosen(job)]
        if not chosen:
            few = ", ".join(r.name for r in self.recipes[:6])
            raise ValueError(
                f"{' '.join(self.only)} matches no recipe of the table; it has {few}"
                f"{', ...' if len(self.recipes) > 6 else ''}"
            )
        ancestors = {job.initial for job in chosen}
        return [job for job in every if job in chosen or job.folder / FINAL_NAME in ancestors]

    @property
    def _seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def _is_chosen(self, job: Job) -> bool:
        names = job.recipe.name, f"{job.recipe.name}/seed{job.seed}"
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.only)

    def _job(self, recipe: Recipe, seed: int) -> Job:
        runs = self.out / "runs"
        name = f"seed{seed}"
        initial = runs / recipe.starts_from / name / FINAL_NAME if recipe.starts_from else None
        return Job(recipe, seed, runs / recipe.name / name, initial)

    def result_file(self, job: Job) -> Path:
        """Where the evidence of a run goes."""
        folder = self.out / "results" / job.recipe.dataset / job.recipe.name
        return folder / f"seed{job.seed}.json"

    def missing(self) -> list[Job]:
        """The cells without a result, and the ancestors that they need and that are not there."""
        jobs = self.jobs()
        wanted = [job for job in jobs if not self.result_file(job).is_file()]
        parents = {job.initial for job in wanted if job.initial and not job.initial.is_file()}
        return [job for job in jobs if job in wanted or job.folder / FINAL_NAME in parents]


@dataclass
class Outcome:
    """What a campaign has brought."""

    finished: list[Job]
    stopped: list[Job]
    waiting: list[Job]
    diverged: list[Job] = field(default_factory=list)


class Deadline:
    """Says when the time of a campaign is over: some seconds before its minutes are."""

    def __init__(self, minutes: float | None, wish: Callable[[], bool]) -> None:
        self.wish = wish
        self.end = None if minutes is None else time.monotonic() + 60 * minutes - RESERVE_SECONDS

    def __call__(self) -> bool:
        return self.wish() or (self.end is not None and time.monotonic() > self.end)


def run_campaign(
    campaign: Campaign,
    data: ImageSource | Material,
    *,
    machine: Machine,
    num_jobs: int,
    should_stop: Callable[[], bool],
    listener_of: Callable[[Job], Listener],
) -> Outcome:
    """Trains the missing cells, up to `num_jobs` at a time, until all are done or it must stop.

    A run that was stopped goes on from its checkpoint the next time.

    Raises:
        ValueError: a run has failed; those beside it have been stopped. Or a recipe is not for
            such data, or needs something that is not installed: then nothing has begun.
    """
    _refuse_other_data(campaign, data)
    waiting = campaign.missing()
    if isinstance(data, Material):
        for job in waiting:
            data.task_for(job.recipe)
    machine = replace(machine, other_jobs=max(min(num_jobs, len(waiting)) - 1, 0))
    give_up = threading.Event()  # one run failed: the others stop with a checkpoint

    def must_stop() -> bool:
        return give_up.is_set() or should_stop()

    def work(job: Job) -> None:
        options = RunOptions(resume=True, checkpoint_every=50, should_stop=must_stop)
        if not job.is_finished():  # else only its result has not been collected yet
            train(job, data, machine=machine, listener=listener_of(job), options=options)

    outcome = Outcome([], [], waiting)
    # Torch's switches are those of the whole process: they are set once, around all threads.
    with (
        machine.settings(),
        machine.enough_threads(recipe.network for recipe in campaign.recipes),
        ThreadPoolExecutor(num_jobs) as pool,
    ):
        try:
            _fill(campaign, outcome, lambda job: pool.submit(work, job), num_jobs, must_stop)
        except BaseException:
            give_up.set()
            raise
    return outcome


def _refuse_other_data(campaign: Campaign, data: ImageSource | Material) -> None:
    """A `HoldsOtherRun` if cells were filled with runs on other data."""
    for job in campaign.jobs():
        file = campaign.result_file(job)
        if isinstance(data, Material) and file.is_file():
            refuse_other_data(result_from_json(read_json(file)), data.task_for(job.recipe), file)


def _fill(
    campaign: Campaign,
    outcome: Outcome,
    submit: Callable[[Job], Future[None]],
    num_jobs: int,
    must_stop: Callable[[], bool],
) -> None:
    """Keeps up to `num_jobs` of the waiting jobs running until none can be begun any more."""
    running: dict[Future[None], Job] = {}
    while True:
        free = 0 if must_stop() else num_jobs - len(running)
        for job in _startable(outcome, running.values())[:free]:
            outcome.waiting.remove(job)
            running[submit(job)] = job
        if not running:
            return
        for future in wait(running, LONGEST_NAP, return_when=FIRST_COMPLETED).done:
            _settle(campaign, running.pop(future), future, outcome)


def _startable(outcome: Outcome, running: Iterable[Job]) -> list[Job]:
    """The waiting jobs whose float ancestor is there and will not be written anew."""
    unfinished = (*outcome.waiting, *outcome.stopped, *outcome.diverged, *running)
    in_the_making = {job.folder / FINAL_NAME for job in unfinished}
    return [job for job in outcome.waiting if job.initial not in in_the_making]


def _settle(campaign: Campaign, job: Job, future: Future[None], outcome: Outcome) -> None:
    try:
        future.result()
    except RunStopped:
        outcome.stopped.append(job)
        return
    except Diverged:  # a rate that is too large for one must not keep the others waiting
        outcome.diverged.append(job)
        return
    except Exception as error:
        raise ValueError(
            f"{job.recipe.name} seed {job.seed} failed ({type(error).__name__}: {error}); the runs "
            "beside it were stopped with a checkpoint: repeat the command once the cause is gone"
        ) from error
    target = campaign.result_file(job)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, (job.folder / RESULT_NAME).read_bytes())
    outcome.finished.append(job)


def recipes_of_tables(*names: str) -> tuple[Recipe, ...]:
    """All cells of the tables of these names, the paper's or ours, or all tries of a search."""
    for name in names:
        if name not in CAMPAIGNS:
            raise ValueError(f"no table is called {name!r}; there are: {', '.join(CAMPAIGNS)}")
    recipes = {recipe.name: recipe for name in names for recipe in CAMPAIGNS[name]}
    datasets = {recipe.dataset for recipe in recipes.values()}
    if len(datasets) > 1:
        raise ValueError(
            f"{' '.join(names)}: these tables are of {' and '.join(sorted(datasets))}; "
            "start a campaign for each"
        )
    return tuple(recipes.values())
