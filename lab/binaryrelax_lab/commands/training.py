"""Training in front of a person: progress while it runs, and what was kept if it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax_lab.campaign import Campaign, run_campaign
from binaryrelax_lab.commands.loading import load_data
from binaryrelax_lab.commands.progress import (
    LiveProgress,
    PlainProgress,
    describe_phase,
    describe_score,
)
from binaryrelax_lab.commands.signals import Stopped, stop_wishes
from binaryrelax_lab.data import ImageSource
from binaryrelax_lab.engine import (
    Job,
    Listener,
    Machine,
    Material,
    RunOptions,
    RunStopped,
    Several,
    sole_use,
    train_all,
)
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import (
    VALIDATION,
    Ending,
    Epoch,
    LanguageSummary,
    Summary,
    TrainingResult,
)

EPOCHS_BETWEEN_LINES = 10  # of each run of a campaign


class ShownTraining:
    """Jobs that are carried out with their progress on a console.

    Args:
        out: the folder that holds all of their folders, or is one of them.
        again: the command that goes on after an interruption.
    """

    def __init__(self, console: Console, jobs: list[Job], out: Path, again: str) -> None:
        self.console, self.jobs, self.out, self.again = console, jobs, out, again

    def run(
        self,
        machine: Machine,
        options: RunOptions,
        *,
        overwrite: bool = False,
        source: tuple[Path | None, bool] = (None, False),
        log: Path | None = None,
    ) -> list[TrainingResult | None]:
        """Trains one network after the other and returns their results.

        Args:
            machine: what to train with.
            options: how; signals are added to what may stop it.
            overwrite: runs in the folders that are not resumed may be replaced.
            source: the folder with images or texts, and whether to download them.
            log: a folder for TensorBoard logs.

        Raises:
            Stopped: a signal came; what was kept has been said.
            ValueError: a folder holds another run, or one that would be lost, or is in use.
            OSError: a file cannot be written, or images not be read; it says how to go on then.
        """
        # Finished ones too, which the others start from: no process may replace them meanwhile.
        used = self.jobs if self._unfinished(options) else []
        with sole_use((job.folder for job in used), machine.ranks):
            for job in self.jobs:
                job.run_folder.look_again()  # before the locks were ours, others may have written
            self._refuse(machine, options, overwrite)
            if options.resume and not any(job.run_folder.is_begun for job in self.jobs):
                self._say(f"Nothing is saved in {self.out} yet: starting afresh.")
            data = self._load(source, machine) if self._unfinished(options) else None
            return self._train(data, machine, options, log)

    def _refuse(self, machine: Machine, options: RunOptions, overwrite: bool) -> None:
        """A `ValueError` before anything is done if a folder holds what must stay.

        What a job starts from may not be there yet: it is compared when its turn comes.
        """
        if options.resume:
            for job in self.jobs:
                job.run_folder.refuse_other(job.identity(machine.precision), with_start=False)
        elif not overwrite:
            for job in reversed(self.jobs):
                job.run_folder.refuse_to_lose()

    def _unfinished(self, options: RunOptions) -> list[Job]:
        """What is to be trained."""
        return [job for job in self.jobs if not (options.resume and job.is_finished())]

    def _load(self, where: tuple[Path | None, bool], machine: Machine) -> ImageSource | Material:
        data, download = where
        return load_data(
            self.jobs[-1].recipe,
            data=data,
            download=download,
            in_turn=machine.ranks.in_turn,
            note=self._say,
        )

    def _train(
        self,
        data: ImageSource | Material | None,
        machine: Machine,
        options: RunOptions,
        log: Path | None,
    ) -> list[TrainingResult | None]:
        display = LiveProgress if self.console.is_terminal else PlainProgress
        recipes = [job.recipe for job in self.jobs]
        with stop_wishes() as wish, display(self.console, recipes) as progress:
            listener = Several(progress, _tensorboard_log(log)) if log else progress
            try:
                return train_all(
                    self.jobs,
                    data,
                    machine=machine,
                    listener=listener,
                    options=replace(options, should_stop=wish),
                )
            except RunStopped as stop:
                progress.__exit__(None, None, None)
                self._say_what_was_kept(stop)
                raise Stopped(wish) from None
            except OSError as error:
                raise OSError(f"{error}; to go on: {self.again}") from error

    def _say_what_was_kept(self, stop: RunStopped) -> None:
        """Three lines after an interruption: what there is, and how to go on."""
        kept = [job for job in self.jobs if job.is_finished()]
        if len(self.jobs) > 1:
            names = ", ".join(job.recipe.name for job in kept)
            there = f": {names}" if kept else ""
            self._say(
                f"Stopped. {len(kept)} of {len(self.jobs)} networks are finished and kept in "
                f"{self.out}{there}."
            )
        self._say(f"A checkpoint was written: {stop}.")
        self._say(f"To go on: {self.again}")

    def _say(self, line: str) -> None:
        say(self.console, line)


def _tensorboard_log(folder: Path) -> Listener:
    from binaryrelax_lab.engine.tensorboard import TensorBoardLog  # slow to import

    return TensorBoardLog(folder)


def show_campaign(
    console: Console,
    campaign: Campaign,
    data: ImageSource | Material,
    machine: Machine,
    num_jobs: int,
    should_stop: Callable[[], bool],
) -> None:
    """Trains what is missing of a campaign, a line now and then for each run."""
    lock = threading.Lock()

    def say_in_turn(line: str) -> None:
        with lock:
            say(console, line)

    outcome = run_campaign(
        campaign,
        data,
        machine=machine,
        num_jobs=num_jobs,
        should_stop=should_stop,
        listener_of=lambda job: _RunLines(job, say_in_turn),
    )
    names = ", ".join(f"{job.recipe.name} seed {job.seed}" for job in outcome.diverged)
    diverged = f"; diverged, and no number any more: {names}" if names else ""
    say_in_turn(
        f"{len(outcome.finished)} runs finished, {len(outcome.stopped)} stopped with a checkpoint, "
        f"{len(outcome.waiting)} not begun{diverged}"
    )


class _RunLines(Listener):
    """Lines about one of several runs that take place at the same time."""

    def __init__(self, job: Job, say: Callable[[str], None]) -> None:
        self.name, self.say = f"{job.recipe.name} seed {job.seed}", say

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        self.epochs = recipe.epochs
        self.say(f"{self.name}: begins at epoch {steps_done / steps_per_epoch:.4g}")

    def epoch_finished(self, record: Epoch) -> None:
        if (record.epoch + 1) % EPOCHS_BETWEEN_LINES == 0:
            self.say(
                f"{self.name}: epoch {record.epoch + 1}/{self.epochs}{describe_phase(record)}"
                f"  loss {record.train_loss:.3f}  {describe_score(record)}"
            )

    def run_finished(self, result: TrainingResult) -> None:
        line = summary_line(result.summary)
        self.say(f"{self.name}: done in {result.seconds:.0f} s, {line}")

    def note(self, line: str) -> None:
        self.say(f"{self.name}: {line}")


def summary_line(summary: Ending) -> str:
    """The figures of a finished run in one line."""
    in_q = {None: "float", True: "in Q", False: "NOT in Q"}[summary.in_q]
    words = _of_texts(summary) if isinstance(summary, LanguageSummary) else _of_images(summary)
    return f"{words}, weights {in_q}"


def _of_images(summary: Ending) -> str:
    assert isinstance(summary, Summary)
    top5, anew, best = summary.last_top5, summary.last_recalibrated, summary.best_phase_two
    parts = (
        f"accuracy {summary.last:.2f} %",
        "" if top5 is None else f" (top-5 {top5:.2f} %)",
        "" if anew is None else f" (recalibrated {anew:.2f} %)",  # older results lack it
        "" if best is None else f", best of Phase II {best:.2f} %",
    )
    return "".join(parts)


def _of_texts(summary: LanguageSummary) -> str:
    score = (summary.texts or {})[VALIDATION]
    pairs = "" if score.bigrams is None else f", counts of pairs {score.bigrams:.3f}"
    return (
        f"validation loss {score.loss:.3f} (perplexity {score.perplexity:.1f}, "
        f"{score.bits_per_byte:.3f} bits per byte{pairs})"
    )
