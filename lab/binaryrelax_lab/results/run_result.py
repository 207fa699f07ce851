"""What a training run on images has left: accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from binaryrelax_lab.recipes.methods import BASELINES, PROJECTIONS
from binaryrelax_lab.results.training_result import Ending, Epoch, TrainingResult

# What makes a method: the projection, and whether λ grows.
_METHOD_OF = {
    (repr(projection), method not in BASELINES): method
    for method, projection in PROJECTIONS.items()
}


@dataclass(frozen=True)
class EpochRecord(Epoch):
    """One epoch; accuracies in percent. See `Epoch`.

    Args:
        accuracy: at x.
        accuracy_top5: likewise, where five guesses count.
        accuracy_projected: at proj(y), where it was measured.

    Examples:
        >>> from binaryrelax_lab.results import EpochRecord
        >>> measured = {"lr": 0.01, "train_loss": 0.5, "accuracy": 80.0}
        >>> hard = EpochRecord(9, phase=2, strength=float("inf"), **measured)
        >>> entry = hard.to_json()
        >>> entry["strength"], EpochRecord.from_json(entry, number=9) == hard
        ('inf', True)
    """

    accuracy: float
    accuracy_top5: float | None = None
    accuracy_projected: float | None = None

    SCORE, PROJECTED = "accuracy", "accuracy_projected"
    NEEDED = ("accuracy",)
    OPTIONAL = ("accuracy_top5", "accuracy_projected")
    ONLY_IF_SET = ("accuracy_top5",)


@dataclass(frozen=True)
class Summary(Ending):
    """The figures that tables are made of; accuracies in percent. See `Ending`.

    Args:
        last_top5: of the last epoch, where five guesses count.
        last_recalibrated: of the last epoch, with batch statistics measured anew.

    Examples:
        >>> from binaryrelax_lab.results import Summary
        >>> summary = Summary(last=85.5, best_phase_two=86.0, mean_last_5=85.7, in_q=True)
        >>> Summary.from_json(summary.to_json()) == summary
        True
    """

    last_top5: float | None = None
    last_recalibrated: float | None = None

    OPTIONAL = ("last_recalibrated", "mean_last_5", "last_top5")
    ONLY_IF_SET = ("last_top5",)


@dataclass(frozen=True)
class RunResult(TrainingResult):
    """A finished run on images. See `TrainingResult`.

    Examples:
        >>> from dataclasses import replace
        >>> from pathlib import Path
        >>> from binaryrelax_lab.data import load_dataset
        >>> from binaryrelax_lab.engine import Job, train
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> data = load_dataset("fashion-mnist-12k")
        >>> few = {"train_images": data.train_images[:128], "train_labels": data.train_labels[:128]}
        >>> job = Job(find_recipe("demo-float@2"), seed=0, folder=Path("run"))
        >>> result = train(job, replace(data, **few))
        >>> result.recipe.name, result.seed, len(result.epochs), result.start
        ('demo-float@2', 0, 2, None)
        >>> result.summary.last == result.epochs[-1].accuracy
        True
    """

    epochs: tuple[EpochRecord, ...]
    summary: Summary

    EPOCH, ENDING = EpochRecord, Summary

    @property
    def method(self) -> str:
        """float, bwn, binary, twn, ternary or ternary-exact, by its settings.

        The method that its recipe was made from may be another: λ = ∞ from the start turns
        binary into bwn.
        """
        kind = self.recipe.quantizer or "", self.recipe.is_relaxed
        return _METHOD_OF.get(kind, self.recipe.method)

    @property
    def accuracies(self) -> list[float]:
        """The test accuracy after each epoch, in percent."""
        return [record.accuracy for record in self.epochs]

    @property
    def quantized_accuracies(self) -> list[float]:
        """The same of the projected network, where the epoch's own is not in Q yet."""
        return [
            record.accuracy if record.accuracy_projected is None else record.accuracy_projected
            for record in self.epochs
        ]

    @property
    def phase_two(self) -> Sequence[EpochRecord]:
        """The epochs of Phase II; of float, BWN and TWN the same ones."""
        return self.epochs[self.recipe.phase_two_epoch :]

    @property
    def last_recalibrated(self) -> float | None:
        """That of the last epoch with batch statistics measured anew."""
        return self.summary.last_recalibrated

    @property
    def last_top5(self) -> float | None:
        """Top-5 after the last epoch, where it was measured."""
        return self.epochs[-1].accuracy_top5

    @property
    def best_top5(self) -> float | None:
        """The best top-5 of Phase II, where it was measured."""
        values = [r.accuracy_top5 for r in self.phase_two if r.accuracy_top5 is not None]
        return max(values, default=None)
