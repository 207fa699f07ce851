"""How the learning rate falls, as a factor of its first value."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace


class LearningRateSchedule(ABC):
    """A falling factor, asked for at every step."""

    @abstractmethod
    def factor(self, epoch: float, num_epochs: int) -> float:
        """The factor at `epoch`, which counts from 0 and has a fraction inside an epoch."""

    @abstractmethod
    def stretched(self, ratio: float) -> "LearningRateSchedule":
        """The same schedule for a run that is `ratio` times as long."""


@dataclass(frozen=True)
class Cosine(LearningRateSchedule):
    """From 1 to 0 along half a cosine, step by step."""

    def factor(self, epoch: float, num_epochs: int) -> float:
        return (1 + math.cos(math.pi * epoch / num_epochs)) / 2

    def stretched(self, ratio: float) -> "Cosine":
        return self


@dataclass(frozen=True)
class Triangle(LearningRateSchedule):
    """From 0 to 1 and back to 0 along straight lines.

    Args:
        rise: the share of the run that the first line takes.
    """

    rise: float = 0.05

    def factor(self, epoch: float, num_epochs: int) -> float:
        share = epoch / num_epochs
        return share / self.rise if share < self.rise else (1 - share) / (1 - self.rise)

    def stretched(self, ratio: float) -> "Triangle":
        return self


@dataclass(frozen=True)
class Steps(LearningRateSchedule):
    """Multiplied by `factor_each` at every milestone, an epoch counted from 0."""

    milestones: tuple[int, ...]
    factor_each: float = 0.1

    def factor(self, epoch: float, num_epochs: int) -> float:
        return self.factor_each ** sum(epoch >= milestone for milestone in self.milestones)

    def stretched(self, ratio: float) -> "Steps":
        return replace(self, milestones=tuple(round(m * ratio) for m in self.milestones))
