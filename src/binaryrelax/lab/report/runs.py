"""A finished run as the report sees it: its files, and what to call it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine import HISTOGRAMS_NAME, RESULT_NAME, read_json
from binaryrelax.lab.recipes import METHOD_NAMES
from binaryrelax.lab.recipes.methods import BASELINES, PROJECTIONS

# What makes a method: the projection, and whether λ grows.
METHOD_OF = {
    (repr(projection), method not in BASELINES): method
    for method, projection in PROJECTIONS.items()
}


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
        """float, bwn, binary, twn, ternary or ternary-exact, by its settings.

        The method that its recipe was made from may be another: λ = ∞ from the start turns
        binary into bwn.
        """
        projection = self.result["recipe"]["quantizer"]
        return METHOD_OF.get((projection, self.is_relaxed), self.made_from)

    @property
    def made_from(self) -> str:
        """The method that the name of its recipe tells."""
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
    def last_top5(self) -> float | None:
        """Top-5 after the last epoch, where it was measured."""
        return self.result["epochs"][-1].get("accuracy_top5")

    @property
    def best_top5(self) -> float | None:
        """The best top-5 of Phase II, where it was measured."""
        records = self.result["epochs"][self.phase_two_epoch :]
        values = [record.get("accuracy_top5") for record in records]
        return max((value for value in values if value is not None), default=None)

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
