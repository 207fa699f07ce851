"""Tiny runs that are stopped and go on."""

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from lab.tests.support.noise import noise_for
from lab.tests.support.tiny import tiny_data, tiny_recipe

from binaryrelax_lab.data import ImageSet
from binaryrelax_lab.engine import Job, Listener, RunOptions, RunStopped, train
from binaryrelax_lab.recipes import Recipe

HALF_DONE, FINISHED = 1, None  # after how many steps a run was stopped


@cache
def _data() -> ImageSet:
    """Of 40 images the third step of an epoch has half as many as the others."""
    return tiny_data(40)


class Notes(Listener):
    """Keeps what a run says."""

    def __init__(self):
        self.lines = []

    def note(self, line: str) -> None:
        assert "\n" not in line
        self.lines.append(line)


class After:
    """Says stop once it has been asked that often, which is after each step."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps

    def __call__(self) -> bool:
        self.num_steps -= 1
        return self.num_steps <= 0


def train_tiny(
    folder: Path,
    *,
    recipe: Recipe | None = None,
    seed: int = 0,
    initial: Path | None = None,
    stop_after: int | None = None,
    resume: bool = False,
) -> list[str]:
    """A run with a checkpoint each epoch, of three steps; returns what it said."""
    job = Job(recipe or tiny_recipe("ternary"), seed, folder, initial)
    options = RunOptions(resume=resume, checkpoint_every=1)
    if stop_after:
        options = replace(options, should_stop=After(stop_after))
    notes = Notes()
    train(job, _data(), listener=notes, options=options)
    return notes.lines


def train_on_noise(jobs: list[Job], stop_after: int | None = FINISHED) -> None:
    """Runs of real recipes with next to no images; the last one may be stopped."""
    for job in jobs:
        should_stop = After(stop_after) if stop_after and job is jobs[-1] else lambda: False
        data = noise_for("fashion-mnist-12k", num_images=200)
        with suppress(RunStopped):
            train(job, data, options=RunOptions(should_stop=should_stop))
