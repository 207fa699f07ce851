"""How a training run looks in a terminal, and in a log file."""

import math
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from binaryrelax.cli.console import say
from binaryrelax_lab.engine import Listener
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import (
    VALIDATION,
    Epoch,
    EpochRecord,
    LanguageEpoch,
    LanguageResult,
    TrainingResult,
)

BAR_WIDTH = 10  # of one network; with it the table fits 80 columns


class Clock:
    """How much of all the work is done, and how long the rest will take."""

    def __init__(self, num_epochs: int) -> None:
        self.num_epochs = num_epochs
        self.epochs_done = 0.0
        self._epochs_timed = 0.0
        self._seconds = 0.0
        self._last_tick = time.perf_counter()

    def start(self) -> None:
        """What happened until now was not training."""
        self._last_tick = time.perf_counter()

    def advance(self, epochs: float) -> None:
        """This part of an epoch has been trained since the last call."""
        now = time.perf_counter()
        self._seconds += now - self._last_tick
        self._last_tick = now
        self._epochs_timed += epochs
        self.epochs_done += epochs

    def skip(self, epochs: float) -> None:
        """These epochs need not be trained."""
        self.epochs_done += epochs

    @property
    def share_done(self) -> float:
        """From 0 to 1."""
        return self.epochs_done / self.num_epochs

    def time_left(self) -> str:
        """Minutes and seconds, from the mean time of an epoch so far."""
        if self._epochs_timed < 0.1:
            return "--:--"
        pace = self._seconds / self._epochs_timed
        seconds = round(pace * (self.num_epochs - self.epochs_done))
        return f"{seconds // 60}:{seconds % 60:02d}"


class _Watching(Listener):
    """Keeps count of the running network for both displays."""

    def __init__(self, recipes: list[Recipe]) -> None:
        self.recipes = recipes
        self.clock = Clock(sum(recipe.epochs for recipe in recipes))
        self.running: Recipe | None = None
        self.steps_done, self.steps_per_epoch = 0, 1
        self.num_epochs = 0  # of the running network
        self.units_per_second = 0.0
        self._unit = recipes[0].UNIT if recipes else ""

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        """A network's turn has come."""
        self.steps_done, self.steps_per_epoch = steps_done, steps_per_epoch
        self.num_epochs = recipe.epochs
        self.running = recipe  # last: a display may draw from a thread of its own
        self.clock.skip(steps_done / steps_per_epoch)
        self.clock.start()
        self._epoch_began, self._num_examples = time.perf_counter(), 0

    def step_finished(self, num_examples: int) -> None:
        """Only counts."""
        self.steps_done += 1
        self._num_examples += num_examples
        self.clock.advance(1 / self.steps_per_epoch)

    def epoch_finished(self, record: Epoch) -> None:
        """Measures the speed."""
        now = time.perf_counter()
        units = self.running.units_per_example if self.running else 1
        self.units_per_second = units * self._num_examples / (now - self._epoch_began)
        self._epoch_began, self._num_examples = now, 0


class PlainProgress(_Watching):
    """One line for the beginning and the end of a run and for each epoch: for files and pipes."""

    def __init__(self, console: Console, recipes: list[Recipe]) -> None:
        super().__init__(recipes)
        self.console = console
        self.runs_begun = 0

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to tidy up."""

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        """Says which run begins, and where."""
        super().run_started(recipe, steps_per_epoch, steps_done)
        self.runs_begun += 1
        resumed = f", resumed at epoch {steps_done / steps_per_epoch:.4g}" if steps_done else ""
        self.note(f"{self._position()} {recipe.name}: {recipe.label}{resumed}")

    def epoch_finished(self, record: Epoch) -> None:
        """Says what the epoch has brought."""
        super().epoch_finished(record)
        self.note(
            f"  epoch {record.epoch + 1}/{self.num_epochs}{describe_phase(record)}"
            f"  lr {record.lr:.3g}  loss {record.train_loss:.3f}"
            f"  {describe_score(record)}"
            f"  {self.units_per_second:,.0f} {self._unit}/s  time left {self.clock.time_left()}"
        )

    def run_finished(self, result: TrainingResult) -> None:
        """Says how the run has ended."""
        self.note(f"  done in {result.seconds:.0f} s: {describe_last(result)}")

    def run_skipped(self, result: TrainingResult) -> None:
        """Says that there was nothing to do."""
        self.runs_begun += 1
        self.clock.skip(len(result.epochs))
        self.note(f"{self._position()} {result.name}: finished before, kept")

    def note(self, line: str) -> None:
        """Says it."""
        say(self.console, line)

    def _position(self) -> str:
        return f"[{self.runs_begun}/{len(self.recipes)}]"


class LiveProgress(_Watching):
    """A table that is redrawn in place: one row per network, the running one with a bar."""

    def __init__(self, console: Console, recipes: list[Recipe]) -> None:
        super().__init__(recipes)
        self.records: dict[str, Epoch] = {}
        self.speeds: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.live = Live(get_renderable=self._draw, console=console, refresh_per_second=5)

    def __enter__(self) -> "LiveProgress":
        self.live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.running = None
        self.live.__exit__(None, None, None)

    def epoch_finished(self, record: Epoch) -> None:
        """New numbers in the running row."""
        super().epoch_finished(record)
        if self.running:
            self.records[self.running.name] = record
            self.speeds[self.running.name] = self.units_per_second

    def run_finished(self, result: TrainingResult) -> None:
        """The row is complete."""
        self.running = None
        self.notes[result.name] = f"{result.seconds:.0f} s"

    def run_skipped(self, result: TrainingResult) -> None:
        """The row was complete before."""
        self.records[result.name] = result.epochs[-1]
        self.notes[result.name] = "kept"
        self.clock.skip(len(result.epochs))

    def note(self, line: str) -> None:
        """Says it above the table."""
        self.live.console.print(line, markup=False, highlight=False)

    def _draw(self) -> RenderableType:
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("network", overflow="fold")  # the one that gives way to the others
        measured = "perplexity" if self._unit == "tokens" else "accuracy"
        for heading in ("epoch", "phase", "λ", "lr", "loss", measured, f"{self._unit}/s"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", min_width=BAR_WIDTH, no_wrap=True)
        for recipe in self.recipes:
            table.add_row(*self._row(recipe), style=None if self._is_begun(recipe) else "dim")
        total = Table.grid(padding=(0, 2, 0, 0))
        total.add_row(
            Text("in all", style="bold"),
            ProgressBar(total=1, completed=self.clock.share_done, width=40),
            f"{100 * self.clock.share_done:.0f} %",
            f"time left {self.clock.time_left()}",
        )
        return Group(table, Text(), total)

    def _is_begun(self, recipe: Recipe) -> bool:
        return recipe is self.running or recipe.name in self.records

    def _only_methods_differ(self) -> bool:
        """Whether the networks are one network, trained alike by several methods."""
        without_method = {recipe.name.without_method() for recipe in self.recipes}
        return len(without_method) == 1 < len(self.recipes)

    def _row(self, recipe: Recipe) -> list[RenderableType]:
        record = self.records.get(recipe.name)
        epoch = self.steps_done // self.steps_per_epoch if recipe is self.running else 0
        done = record.epoch + 1 if record else epoch
        numbers = _numbers(record) if record else [""] * 5
        speed = self.speeds.get(recipe.name)
        note = self.notes.get(recipe.name, "")
        state: RenderableType = Text(note, style="cyan" if note == "kept" else "green")
        if recipe is self.running:
            total = recipe.epochs * self.steps_per_epoch
            state = ProgressBar(total=total, completed=self.steps_done, width=BAR_WIDTH)
        name = recipe.label if self._only_methods_differ() else recipe.name
        shown_speed = f"{speed:,.0f}" if speed else ""
        return [name, f"{done}/{recipe.epochs}", *numbers, shown_speed, state]


def describe_phase(record: Epoch) -> str:
    """Phase and λ of an epoch, in a few words; nothing for a float run."""
    if record.phase is None:
        return ""
    return f"  phase {'I' * record.phase}  λ {describe_strength(record.strength)}"


def describe_strength(strength: float | None) -> str:
    """λ as people write it."""
    if strength is None:
        return "-"
    return "∞" if math.isinf(strength) else f"{strength:.3g}"


def describe_score(record: Epoch) -> str:
    """What was measured after an epoch, in a few words."""
    if isinstance(record, LanguageEpoch):
        return f"validation loss {record.loss:.3f}  perplexity {_score(record)}"
    return f"accuracy {_score(record)}"


def describe_last(result: TrainingResult) -> str:
    """What was measured after the last epoch, as a bare figure."""
    if isinstance(result, LanguageResult):
        return f"perplexity {result.score(VALIDATION).perplexity:.1f}"
    return f"{result.last:.2f} %"


def _score(record: Epoch) -> str:
    """An accuracy, or a perplexity."""
    if isinstance(record, LanguageEpoch):
        return f"{record.perplexity:.1f}"
    assert isinstance(record, EpochRecord)
    return f"{record.accuracy:.2f} %"


def _numbers(record: Epoch) -> list[str]:
    """Phase, λ, learning rate, loss and score of a record, as text."""
    return [
        "-" if record.phase is None else "I" * record.phase,
        describe_strength(record.strength),
        f"{record.lr:.3g}",
        f"{record.train_loss:.3f}",
        _score(record),
    ]
