"""What a run has left: the content of ``result.json``, typed.

Files of before a figure was measured lack it: such fields are None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from binaryrelax_lab.recipes.methods import BASELINES, PROJECTIONS
from binaryrelax_lab.recipes.name import METHOD_NAMES, RecipeName
from binaryrelax_lab.results.weight_histograms import WeightHistograms

Json = dict[str, Any]
Fact = str | int | float | bool | None
# What makes a method: the projection, and whether λ grows.
_METHOD_OF = {
    (repr(projection), method not in BASELINES): method
    for method, projection in PROJECTIONS.items()
}


@dataclass(frozen=True)
class EpochRecord:
    """One epoch; accuracies in percent.

    Args:
        epoch: counted from 0.
        phase: 1 or 2; None in a float run.
        strength: the λ that wrote the weights at its end; None in a float run.
        lr: the learning rate.
        train_loss: the mean over the epoch.
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

    epoch: int
    phase: int | None
    strength: float | None
    lr: float | None
    train_loss: float | None
    accuracy: float
    accuracy_top5: float | None = None
    accuracy_projected: float | None = None

    def to_json(self) -> Json:
        """The entry of ``result.json``; an infinite λ is "inf"."""
        content = _content(self, only_if_set=("accuracy_top5",))
        return content | {"strength": _number_to_json(self.strength)}

    @staticmethod
    def from_json(content: Any, number: int) -> EpochRecord:
        """The epoch that stands at place `number`."""
        where = f"epoch {number}"
        _require(isinstance(content, dict), "it has no epochs")
        _require(_is_number(content.get("accuracy")), f"{where} has no accuracy")
        names = ("accuracy_top5", "accuracy_projected")
        optional = {name: content.get(name) for name in names}
        strength = content.get("strength")
        known = [value for value in (*optional.values(), strength) if value not in (None, "inf")]
        _require(all(map(_is_number, known)), f"{where} holds something else than numbers")
        phase = content.get("phase")
        return EpochRecord(
            epoch=content.get("epoch", number),
            phase=phase,
            strength=math.inf if strength == "inf" else strength,
            lr=_number_or_none(content.get("lr")),
            train_loss=_number_or_none(content.get("train_loss")),
            accuracy=content["accuracy"],
            **optional,
        )


@dataclass(frozen=True)
class Summary:
    """The figures that tables are made of; accuracies in percent.

    Args:
        last: of the last epoch.
        best_phase_two: of the best epoch of Phase II.
        mean_last_5: the mean of the last five epochs.
        last_top5: of the last epoch, where five guesses count.
        last_recalibrated: of the last epoch, with batch statistics measured anew.
        in_q: whether all quantized weights lie in Q; None for a float network.

    Examples:
        >>> from binaryrelax_lab.results import Summary
        >>> summary = Summary(last=85.5, best_phase_two=86.0, mean_last_5=85.7, in_q=True)
        >>> Summary.from_json(summary.to_json()) == summary
        True
    """

    last: float
    best_phase_two: float | None
    mean_last_5: float | None
    last_top5: float | None = None
    last_recalibrated: float | None = None
    in_q: bool | None = None

    def to_json(self) -> Json:
        """The part of ``result.json``."""
        return _content(self, only_if_set=("last_top5",))

    @staticmethod
    def from_json(content: Json) -> Summary:
        """Raises ValueError if it is none."""
        summary: Summary = _filled(Summary, content)
        best = summary.best_phase_two
        _require(
            _is_number(summary.last) and (best is None or _is_number(best)),
            "its summary has no accuracy of the last epoch, or a wrong best one",
        )
        others = (summary.last_recalibrated, summary.mean_last_5, summary.last_top5)
        _require(
            all(value is None or _is_number(value) for value in others),
            "its summary holds something else than numbers",
        )
        _require(isinstance(summary.in_q, bool | None), "its in_q is neither true nor false")
        return summary


@dataclass(frozen=True)
class LayerFacts:
    """What one weight in the final file is; distance and membership are None for a float one."""

    name: str
    num_weights: int
    distinct_values: int
    num_zeros: int
    distance: float | None
    in_q: bool | None
    stored_bits: int
    bits_per_weight: float


@dataclass(frozen=True)
class NetworkSize:
    """Bytes and bits if each layer were stored at its own width."""

    bits_per_weight: float
    layers_bytes: float
    layers_bytes_float: float
    network_bytes: float
    network_bytes_float: float


@dataclass(frozen=True)
class Weights:
    """What the final file holds, read back from the disk."""

    digest: str | None
    size: NetworkSize | None
    layers: tuple[LayerFacts, ...]

    def to_json(self) -> Json:
        """The part of ``result.json``."""
        size = None if self.size is None else _content(self.size)
        return {"digest": self.digest, "size": size, "layers": [_content(x) for x in self.layers]}

    @staticmethod
    def from_json(content: Json) -> Weights:
        """Raises ValueError if it is none."""
        layers = content.get("layers", [])
        _require(
            isinstance(layers, list) and all(isinstance(layer, dict) for layer in layers),
            "its layers are not a list of records",
        )
        size = content.get("size")
        _require(isinstance(size, dict | None), "its size is no record")
        return Weights(
            content.get("digest"),
            _filled(NetworkSize, size) if size else None,
            tuple(_filled(LayerFacts, layer) for layer in layers),
        )


@dataclass(frozen=True)
class Start:
    """The network that a run began with; a file that was not there has no digest."""

    name: str
    digest: str | None


@dataclass(frozen=True)
class RecipeFacts:
    """The recipe as it stood when the run was made, which may differ from today's of that name.

    Args:
        settings: all of it, as plain data.
    """

    name: RecipeName
    dataset: str
    network: str
    method: str
    quantizer: str | None
    epochs: int
    phase_two_epoch: int
    settings: Mapping[str, Any]

    KINDS: ClassVar[dict[str, type]] = {
        "name": str, "dataset": str, "network": str, "method": str, "epochs": int,
        "phase_two_epoch": int,
    }  # fmt: skip

    @staticmethod
    def from_json(content: Json) -> RecipeFacts:
        """Raises ValueError if it is none."""
        wrong = _wrong_kind(content, RecipeFacts.KINDS)
        if wrong or "quantizer" not in content:
            reason = wrong or "quantizer is missing"
            raise ValueError(f"its recipe is not complete ({reason})")
        parts = {key: content[key] for key in (*RecipeFacts.KINDS, "quantizer")}
        _require(isinstance(parts["quantizer"], str | None), "its quantizer is not a name")
        return RecipeFacts(**parts | {"name": RecipeName(content["name"])}, settings=content)

    @property
    def is_quantized(self) -> bool:
        """Whether its weights end in Q."""
        return self.quantizer is not None

    @property
    def is_relaxed(self) -> bool:
        """Whether its λ grows."""
        return self.is_quantized and self.settings.get("initial_strength") != "inf"


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        recipe: its settings.
        seed: all that is random follows from it.
        environment: versions, device, commit and date.
        start: the network that it began with; None for random weights.
        seconds: of training, over all sittings.
        epochs: a record of each.
        summary: the figures that tables are made of.
        weights: what the final file holds.
        split: what was trained on and what accuracies mean, where that is not the whole set.
        histograms: of its weights, which are in a file of their own.
        source: where it was read from, as a reader should see it.

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

    recipe: RecipeFacts
    seed: int
    environment: Mapping[str, Fact]
    start: Start | None
    seconds: float | None
    epochs: tuple[EpochRecord, ...]
    summary: Summary
    weights: Weights | None
    split: Mapping[str, Fact] | None = None
    histograms: WeightHistograms | None = None
    source: str = ""

    KINDS: ClassVar[dict[str, type]] = {
        "recipe": dict,
        "seed": int,
        "epochs": list,
        "summary": dict,
    }
    OPTIONAL: ClassVar[dict[str, type]] = {
        "weights": dict, "environment": dict, "initial_checkpoint": dict,
    }  # fmt: skip

    def to_json(self) -> Json:
        """The content of ``result.json``."""
        return {
            "recipe": dict(self.recipe.settings),
            "seed": self.seed,
            "environment": dict(self.environment),
            "initial_checkpoint": None if self.start is None else _content(self.start),
            **({} if self.split is None else {"split": dict(self.split)}),
            "seconds": self.seconds,
            "epochs": [record.to_json() for record in self.epochs],
            "summary": self.summary.to_json(),
            "weights": None if self.weights is None else self.weights.to_json(),
        }

    @staticmethod
    def from_json(content: Any, source: str = "") -> RunResult:
        """The result in such a file; a `ValueError` says why it is none."""
        _require(isinstance(content, dict), "it is no result of a run")
        wrong = _wrong_kind(content, RunResult.KINDS)
        _require(wrong is None, f"it is no result of a run ({wrong})")
        recipe = RecipeFacts.from_json(content["recipe"])
        told = {key: value for key, value in content.items() if value is not None}
        wrong = _wrong_kind(told, RunResult.OPTIONAL, needed=False)
        _require(wrong is None, wrong or "")
        _require(bool(content["epochs"]), "it has no epochs")
        records = map(EpochRecord.from_json, content["epochs"], range(len(content["epochs"])))
        environment = told.get("environment", {})
        result = RunResult(
            recipe=recipe,
            seed=content["seed"],
            environment=environment,
            start=_filled(Start, told["initial_checkpoint"])
            if "initial_checkpoint" in told
            else None,
            seconds=told.get("seconds"),
            epochs=tuple(records),
            summary=Summary.from_json(content["summary"]),
            weights=Weights.from_json(told["weights"]) if "weights" in told else None,
            split=told.get("split"),
            source=source,
        )
        _require(
            result.seconds is None or _is_number(result.seconds), "its seconds are not a number"
        )
        commit = environment.get("git_commit")
        _require(isinstance(commit, str | None), "its git_commit is not a name")
        return result

    @property
    def name(self) -> RecipeName:
        """The recipe's."""
        return self.recipe.name

    @property
    def method(self) -> str:
        """float, bwn, binary, twn, ternary or ternary-exact, by its settings.

        The method that its recipe was made from may be another: λ = ∞ from the start turns
        binary into bwn.
        """
        kind = self.recipe.quantizer or "", self.recipe.is_relaxed
        return _METHOD_OF.get(kind, self.recipe.method)

    @property
    def label(self) -> str:
        """The method as people call it."""
        return METHOD_NAMES.get(self.method, self.method)

    @property
    def digest(self) -> str | None:
        """That of the final file, where it is told."""
        return self.weights.digest if self.weights else None

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
    def last(self) -> float:
        """The accuracy after the last epoch."""
        return self.summary.last

    @property
    def best(self) -> float | None:
        """The best accuracy of Phase II, chosen by looking at it; None without a Phase II."""
        return self.summary.best_phase_two

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

    @property
    def finite_strengths(self) -> list[float]:
        """λ at the end of each epoch of Phase I."""
        strengths = [record.strength for record in self.epochs]
        return [s for s in strengths if s is not None and math.isfinite(s)]


def _content(record: Any, only_if_set: Sequence[str] = ()) -> Json:
    values = {part.name: getattr(record, part.name) for part in fields(record)}
    return {k: v for k, v in values.items() if k not in only_if_set or v is not None}


def _filled(kind: Callable[..., Any], content: Json) -> Any:
    """A record with what a file tells; None for the rest."""
    return kind(**{part.name: content.get(part.name) for part in fields(kind)})  # type: ignore[arg-type]


def _wrong_kind(content: Json, kinds: dict[str, type], needed: bool = True) -> str | None:
    for key, kind in kinds.items():
        if key not in content and needed:
            return f"{key} is missing"
        if key in content and not isinstance(content[key], kind):
            return f"{key} should be {kind.__name__}"
    return None


def _number_or_none(value: Any) -> float | None:
    """What nothing is computed from may be missing, or rubbish."""
    return value if _is_number(value) else None


def _number_to_json(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
