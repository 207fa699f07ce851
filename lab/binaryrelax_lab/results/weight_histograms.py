"""How a layer's weights lay, epoch by epoch: the content of ``histograms.json``, typed.

Weights are measured in units of the layer's scale. In these units Q stays where it is, at the codes
(-1 and 1, or -1, 0 and 1), and the weights move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from binaryrelax_lab.recipes import plain

UNIT = "weight divided by the scale of its projection"


@dataclass(frozen=True)
class Snapshot:
    """The weights after one epoch.

    Args:
        epoch: None for the weights before training.
        phase: 1 or 2; None in a float run and before training.
        strength: the λ that wrote the weights; 0 before training, None in a float run.
        scale: that of the projection.
        distance: to Q.
        counts: how many weights lie in each bin.
    """

    epoch: int | None
    phase: int | None
    strength: float | None
    scale: float
    distance: float
    counts: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data; an infinite λ is "inf"."""
        return vars(self) | {"strength": plain(self.strength), "counts": list(self.counts)}

    @staticmethod
    def from_json(content: dict[str, Any]) -> Snapshot:
        """What `to_json` made."""
        strength = math.inf if content["strength"] == "inf" else content["strength"]
        return Snapshot(**content | {"strength": strength, "counts": tuple(content["counts"])})


@dataclass(frozen=True)
class WeightHistograms:
    """Histograms of one layer over the same bins; weights outside of all bins are not counted."""

    layer: str
    num_weights: int
    codebook: tuple[float, ...]
    first_centre: float
    bin_width: float
    snapshots: tuple[Snapshot, ...]

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "layer": self.layer,
            "num_weights": self.num_weights,
            "codebook": list(self.codebook),
            "unit": UNIT,
            "first_centre": self.first_centre,
            "bin_width": self.bin_width,
            "snapshots": [snapshot.to_json() for snapshot in self.snapshots],
        }

    @staticmethod
    def from_json(content: dict[str, Any]) -> WeightHistograms:
        """What `to_json` made."""
        told = {key: value for key, value in content.items() if key != "unit"}
        snapshots = tuple(map(Snapshot.from_json, content["snapshots"]))
        codebook = tuple(content["codebook"])
        return WeightHistograms(**told | {"codebook": codebook, "snapshots": snapshots})
