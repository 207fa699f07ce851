"""Who hears about the progress of a run."""

from typing import Any, Protocol

from binaryrelax.lab.recipes import Recipe


class Listener(Protocol):
    """What the engine tells while it trains; it prints nothing itself."""

    def run_started(self, recipe: Recipe, steps_per_epoch: int) -> None:
        """Training begins."""

    def step_finished(self) -> None:
        """One more step is done. Called often: must be cheap and must not read the device."""

    def epoch_finished(self, record: dict[str, Any]) -> None:
        """An epoch is over; `record` is its entry of ``result.json``."""

    def run_finished(self, result: dict[str, Any]) -> None:
        """The run is over and its files are written; `result` is what ``result.json`` holds."""

    def run_skipped(self, result: dict[str, Any]) -> None:
        """The run had been finished before; `result` is what ``result.json`` holds."""


class Silent:
    """A listener that hears and says nothing."""

    def run_started(self, recipe: Recipe, steps_per_epoch: int) -> None:
        """Nothing."""

    def step_finished(self) -> None:
        """Nothing."""

    def epoch_finished(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def run_finished(self, result: dict[str, Any]) -> None:
        """Nothing."""

    def run_skipped(self, result: dict[str, Any]) -> None:
        """Nothing."""
