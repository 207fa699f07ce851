"""Who hears about the progress of a run."""

from functools import partial

from binaryrelax.optim.monitor import LayerRecord
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import Epoch, TrainingResult


class Listener:
    """What the engine tells while it trains; it prints nothing itself. This one says nothing.

    Attributes:
        wants_layers: whether to measure the quantized layers after each epoch.
    """

    wants_layers = False

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        """Training begins, or goes on after `steps_done` steps."""

    def step_finished(self, num_examples: int) -> None:
        """One more step is done, with so many examples, those of all processes.

        Called often: must be cheap and must not read the device.
        """

    def epoch_finished(self, record: Epoch) -> None:
        """An epoch is over."""

    def layers_measured(self, epoch: int, layers: list[LayerRecord]) -> None:
        """What ``measure`` says of the quantized layers after an epoch, if that was wanted."""

    def run_finished(self, result: TrainingResult) -> None:
        """The run is over and its files are written; only the first process is told."""

    def run_skipped(self, result: TrainingResult) -> None:
        """The run had been finished before."""

    def note(self, line: str) -> None:
        """Something that the user should know, in one line."""


class Several(Listener):
    """Tells several listeners."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners
        self.wants_layers = any(listener.wants_layers for listener in listeners)
        for event in EVENTS:
            setattr(self, event, partial(self._tell, event))

    def _tell(self, event: str, *what: object) -> None:
        for listener in self.listeners:
            getattr(listener, event)(*what)


EVENTS = [name for name in vars(Listener) if callable(getattr(Listener, name)) and name[0] != "_"]
