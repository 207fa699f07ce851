"""Runs that build on each other: a network and the float ancestor that it starts from."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from binaryrelax.lab.data import ImageSource
from binaryrelax.lab.engine import (
    FINAL_NAME,
    RESULT_NAME,
    Job,
    Listener,
    Machine,
    RunOptions,
    read_json,
    train,
)
from binaryrelax.lab.engine.checkpoint import forget_checkpoints
from binaryrelax.lab.engine.feasibility import refuse_bad_start
from binaryrelax.lab.recipes import Recipe, find_recipe

TOO_SMALL_FOR_THREADS = ("small-conv",)


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
    """
    if recipe.starts_from is None or initial is not None:
        return [Job(recipe, seed, out, initial)]
    ancestor = find_recipe(recipe.starts_from)
    folder = out / ancestor.name
    before = job_with_ancestor(ancestor, seed=seed, out=folder, initial=None)
    return [*before, Job(recipe, seed, out, folder / FINAL_NAME)]


def carry_out(
    jobs: list[Job],
    data: ImageSource | None,
    *,
    machine: Machine,
    listener: Listener,
    options: RunOptions,
) -> list[dict[str, Any]]:
    """Trains one network after the other and returns their results.

    With `options.resume`, finished ones are kept. Without, neither results nor checkpoints of
    before can be mistaken for new ones, whenever this ends; they go once the first of the new runs
    can begin.

    Args:
        jobs: in an order that has each network after the one that it starts from.
        data: what to train them on; not needed if all are finished and kept.
        machine: what to train them with.
        listener: who hears of the progress.
        options: those of each run.
    """
    if not options.resume:
        machine.ranks.in_turn(lambda: refuse_bad_start(jobs, data))
        if machine.ranks.is_first:
            _forget_runs(jobs)
    results = []
    with enough_threads([job.recipe for job in jobs], machine):
        for job in jobs:
            if options.resume and job.is_finished():
                results.append(read_json(job.folder / RESULT_NAME))
                listener.run_skipped(results[-1])
                continue
            results.append(train(job, data, machine=machine, listener=listener, options=options))
    return results


def _forget_runs(jobs: list[Job]) -> None:
    for job in jobs:
        (job.folder / RESULT_NAME).unlink(missing_ok=True)
        forget_checkpoints(job.folder)


@contextmanager
def enough_threads(recipes: Iterable[Recipe], machine: Machine) -> Iterator[None]:
    """A single thread inside if these networks are too small to share among several."""
    if machine.is_gpu or any(r.network not in TOO_SMALL_FOR_THREADS for r in recipes):
        yield
        return
    with one_thread():
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch use a single thread inside.

    OpenMP's threads wait for each other by spinning: with two of them on two cores, one busy
    neighbour made an epoch of the demo take 31 seconds instead of 2.7 with a single thread. The
    price is 2.3 instead of 1.3 seconds on an idle machine. It also makes the bits of the result
    independent of the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def prepare_folder(out: Path) -> None:
    """Makes the folder; an error that says why if nothing can be written into it."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; give the name of a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()  # has no name, where the system can do without
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"--out {out} cannot be written to ({reason}); give another folder"
        ) from error
