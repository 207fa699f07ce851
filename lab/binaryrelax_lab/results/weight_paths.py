"""How some weights of a layer went into Q: the record of ``sliding-weights.json``, typed.

Weights are in units of the layer's scale: Q stays at the codes, and the weights move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Moment:
    """The layer after a step; x, y and codes are of the weights that are followed.

    Args:
        strength: the λ that wrote x; 0 before the first step.
        distance: of x to Q, relative to the length of x.
        counts_of_x: how many of all weights lie in each bin.
    """

    step: int
    phase: int
    strength: float
    distance: float
    y: tuple[float, ...]
    x: tuple[float, ...]
    codes: tuple[int, ...]
    counts_of_y: tuple[int, ...]
    counts_of_x: tuple[int, ...]

    @staticmethod
    def from_json(content: dict[str, Any], units: int) -> Moment:
        """The content of one entry of `moments`."""
        strength = content["strength"]
        return Moment(
            content["step"],
            content["phase"],
            math.inf if strength == "inf" else strength,
            content["relative_distance"],
            tuple(value / units for value in _numbers(content["y"])),
            tuple(value / units for value in _numbers(content["x"])),
            *(_numbers(content[key]) for key in ("codes", "counts_of_y", "counts_of_x")),
        )


@dataclass(frozen=True)
class WeightPaths:
    """A layer from its float weights to its last step; `edge` is that of the outermost bins."""

    moments: tuple[Moment, ...]
    num_weights: int
    steps_per_epoch: int
    edge: float

    @staticmethod
    def from_json(content: dict[str, Any]) -> WeightPaths:
        """A record of the file."""
        units = content["units_per_scale"]
        return WeightPaths(
            tuple(Moment.from_json(moment, units) for moment in content["moments"]),
            content["num_weights"],
            content["steps_per_epoch"],
            content["bin_edge"],
        )

    @property
    def num_steps(self) -> int:
        """Of the whole training."""
        return self.moments[-1].step

    @property
    def phase_one(self) -> tuple[Moment, ...]:
        """The moments after a step with a finite λ."""
        return tuple(moment for moment in self.moments[1:] if moment.phase == 1)

    @property
    def border(self) -> float:
        """The step at which Phase II begins, as a whole epoch."""
        return self.steps_per_epoch * round(self.phase_one[-1].step / self.steps_per_epoch)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split())
