"""A finished run as the report sees it: its files, and what to call it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine import HISTOGRAMS_NAME, RESULT_NAME, read_json
from binaryrelax.lab.recipes import METHOD_NAMES


@dataclass(frozen=True)
class FinishedRun:
    """The content of ``result.json``, and of ``histograms.json`` where there is one.

    Args:
        source: where the result was read from, as a reader should see it.
    """

    result: dict[str, Any]
    histograms: dict[str, Any] | None = None
    source: str = ""

    @property
    def name(self) -> str:
        """The recipe."""
        return self.result["recipe"]["name"]

    @property
    def seed(self) -> int:
        """What everything random followed from."""
        return self.result["seed"]

    @property
    def method(self) -> str:
        """float, bwn, binary, twn, ternary or ternary-exact."""
        return self.result["recipe"]["method"]

    @property
    def label(self) -> str:
        """The method as people call it."""
        return METHOD_NAMES.get(self.method, self.method)

    @property
    def is_quantized(self) -> bool:
        """Whether its weights end in Q."""
        return self.result["recipe"]["quantizer"] is not None

    @property
    def is_relaxed(self) -> bool:
        """Whether its λ grows."""
        return self.is_quantized and self.result["recipe"].get("initial_strength") != "inf"

    @property
    def accuracies(self) -> list[float]:
        """The test accuracy after each epoch, in percent."""
        return [record["accuracy"] for record in self.result["epochs"]]

    @property
    def quantized_accuracies(self) -> list[float]:
        """The same of the projected network, where the epoch's own is not in Q yet."""
        records = self.result["epochs"]
        return [
            record["accuracy"] if projected is None else projected
            for record in records
            for projected in [record.get("accuracy_projected")]
        ]

    @property
    def last(self) -> float:
        """The accuracy after the last epoch."""
        return self.result["summary"]["last"]

    @property
    def last_recalibrated(self) -> float | None:
        """The same with batch statistics measured anew; None in results that do not have it."""
        return self.result["summary"].get("last_recalibrated")

    @property
    def best(self) -> float | None:
        """The best accuracy of Phase II, chosen by looking at it; None without a Phase II."""
        return self.result["summary"].get("best_phase_two")

    @property
    def phase_two_epoch(self) -> int:
        """After how many epochs Phase II begins."""
        return self.result["recipe"]["phase_two_epoch"]

    @property
    def finite_strengths(self) -> list[float]:
        """λ at the end of each epoch of Phase I."""
        strengths = [record.get("strength") for record in self.result["epochs"]]
        return [strength for strength in strengths if isinstance(strength, int | float)]


def load_run(folder: Path) -> FinishedRun:
    """Reads a run folder, with its histograms if there are any."""
    histograms = folder / HISTOGRAMS_NAME
    return FinishedRun(
        read_json(folder / RESULT_NAME), read_json(histograms) if histograms.is_file() else None
    )
