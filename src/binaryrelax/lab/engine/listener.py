"""Who hears about the progress of a run."""

from typing import Any

from binaryrelax.lab.recipes import Recipe
from binaryrelax.optim.monitor import LayerRecord


class Listener:
    """What the engine tells while it trains; it prints nothing itself. This one says nothing.

    Attributes:
        wants_layers: whether to measure the quantized layers after each epoch.
    """

    wants_layers = False

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        """Training begins, or goes on after `steps_done` steps."""

    def step_finished(self, num_images: int) -> None:
        """One more step is done, with so many images, those of all processes.

        Called often: must be cheap and must not read the device.
        """

    def epoch_finished(self, record: dict[str, Any]) -> None:
        """An epoch is over; `record` is its entry of ``result.json``."""

    def layers_measured(self, epoch: int, layers: list[LayerRecord]) -> None:
        """What ``measure`` says of the quantized layers after an epoch, if that was wanted."""

    def run_finished(self, result: dict[str, Any]) -> None:
        """The run is over and its files are written; `result` is what ``result.json`` holds."""

    def run_skipped(self, result: dict[str, Any]) -> None:
        """The run had been finished before; `result` is what ``result.json`` holds."""

    def note(self, line: str) -> None:
        """Something that the user should know, in one line."""


class Several(Listener):
    """Tells several listeners."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    @property
    def wants_layers(self) -> bool:  # type: ignore[override]
        """Whether one of them does."""
        return any(listener.wants_layers for listener in self.listeners)

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        for listener in self.listeners:
            listener.run_started(recipe, steps_per_epoch, steps_done)

    def step_finished(self, num_images: int) -> None:
        for listener in self.listeners:
            listener.step_finished(num_images)

    def epoch_finished(self, record: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.epoch_finished(record)

    def layers_measured(self, epoch: int, layers: list[LayerRecord]) -> None:
        for listener in self.listeners:
            listener.layers_measured(epoch, layers)

    def run_finished(self, result: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.run_finished(result)

    def run_skipped(self, result: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.run_skipped(result)

    def note(self, line: str) -> None:
        for listener in self.listeners:
            listener.note(line)
