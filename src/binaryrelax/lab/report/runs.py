"""A finished run as the report sees it: its files, and what to call it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine import HISTOGRAMS_NAME, RESULT_NAME, read_json
from binaryrelax.lab.recipes import METHOD_NAMES


@dataclass(frozen=True)
class FinishedRun:
    """The content of ``result.json`` and ``histograms.json``."""

    result: dict[str, Any]
    histograms: dict[str, Any]

    @property
    def method(self) -> str:
        """float, bwn, binary, twn or ternary."""
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
        return self.is_quantized and self.result["recipe"]["initial_strength"] != "inf"

    @property
    def accuracies(self) -> list[float]:
        """The test accuracy after each epoch, in percent."""
        return [record["accuracy"] for record in self.result["epochs"]]


def load_run(folder: Path) -> FinishedRun:
    """Reads a run folder."""
    return FinishedRun(read_json(folder / RESULT_NAME), read_json(folder / HISTOGRAMS_NAME))
