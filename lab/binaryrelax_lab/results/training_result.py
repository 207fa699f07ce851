"""What any training run has left, whatever was trained: the content of ``result.json``, typed.

Files of before a figure was measured lack it: such fields are None.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from binaryrelax_lab.recipes.name import LABELS, RecipeName
from binaryrelax_lab.results.plain_data import (
    Json,
    content_of,
    filled,
    is_number,
    number_or_none,
    number_to_json,
    require,
    wrong_kind,
)
from binaryrelax_lab.results.weight_histograms import WeightHistograms

Fact = str | int | float | bool | None


@dataclass(frozen=True)
class Epoch(ABC):
    """One epoch of a run; a subclass says what was measured after it.

    Args:
        epoch: counted from 0.
        phase: 1 or 2; None in a float run.
        strength: the λ that wrote the weights at its end; None in a float run.
        lr: the learning rate.
        train_loss: the mean over the epoch.
    """

    epoch: int
    phase: int | None
    strength: float | None
    lr: float | None
    train_loss: float | None

    SCORE: ClassVar[str]  # of what was measured, the figure that counts, at x
    PROJECTED: ClassVar[str]  # ... and at proj(y)
    NEEDED: ClassVar[tuple[str, ...]]  # what must have been measured
    OPTIONAL: ClassVar[tuple[str, ...]]  # what may be missing
    ONLY_IF_SET: ClassVar[tuple[str, ...]] = ()  # what files do not mention otherwise

    @property
    def score(self) -> float:
        """The figure that counts: an accuracy, or a loss."""
        return float(getattr(self, self.SCORE))

    @property
    def score_projected(self) -> float | None:
        """The same at proj(y), where it was measured."""
        value: float | None = getattr(self, self.PROJECTED)
        return value

    def to_json(self) -> Json:
        """The entry of ``result.json``; an infinite λ is "inf"."""
        content = content_of(self, only_if_set=self.ONLY_IF_SET)
        return content | {"strength": number_to_json(self.strength)}

    @classmethod
    def from_json(cls, content: Any, number: int) -> Self:
        """The epoch that stands at place `number`."""
        where = f"epoch {number}"
        require(isinstance(content, dict), "it has no epochs")
        for name in cls.NEEDED:
            require(is_number(content.get(name)), f"{where} has no {name}")
        measured = {name: content.get(name) for name in (*cls.NEEDED, *cls.OPTIONAL)}
        strength = content.get("strength")
        known = [value for value in (*measured.values(), strength) if value not in (None, "inf")]
        require(all(map(is_number, known)), f"{where} holds something else than numbers")
        return cls(
            epoch=content.get("epoch", number),
            phase=content.get("phase"),
            strength=math.inf if strength == "inf" else strength,
            lr=number_or_none(content.get("lr")),
            train_loss=number_or_none(content.get("train_loss")),
            **measured,
        )


@dataclass(frozen=True)
class Ending:
    """The figures that tables are made of, of accuracies or losses.

    Args:
        last: of the last epoch.
        best_phase_two: of the best epoch of Phase II.
        mean_last_5: the mean of the last five epochs.
        in_q: whether all quantized weights lie in Q; None for a float network.
    """

    last: float
    best_phase_two: float | None
    mean_last_5: float | None
    in_q: bool | None = None

    OPTIONAL: ClassVar[tuple[str, ...]] = ("mean_last_5",)
    ONLY_IF_SET: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> Json:
        """The part of ``result.json``."""
        return content_of(self, only_if_set=self.ONLY_IF_SET)

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """Raises ValueError if it is none."""
        summary: Self = filled(cls, content)
        best = summary.best_phase_two
        require(
            is_number(summary.last) and (best is None or is_number(best)),
            "its summary has no figure of the last epoch, or a wrong best one",
        )
        others = [getattr(summary, name) for name in cls.OPTIONAL]
        require(
            all(value is None or is_number(value) for value in others),
            "its summary holds something else than numbers",
        )
        require(isinstance(summary.in_q, bool | None), "its in_q is neither true nor false")
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
        size = None if self.size is None else content_of(self.size)
        return {"digest": self.digest, "size": size, "layers": [content_of(x) for x in self.layers]}

    @staticmethod
    def from_json(content: Json) -> Weights:
        """Raises ValueError if it is none."""
        layers = content.get("layers", [])
        require(
            isinstance(layers, list) and all(isinstance(layer, dict) for layer in layers),
            "its layers are not a list of records",
        )
        size = content.get("size")
        require(isinstance(size, dict | None), "its size is no record")
        return Weights(
            content.get("digest"),
            filled(NetworkSize, size) if size else None,
            tuple(filled(LayerFacts, layer) for layer in layers),
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
        wrong = wrong_kind(content, RecipeFacts.KINDS)
        if wrong or "quantizer" not in content:
            reason = wrong or "quantizer is missing"
            raise ValueError(f"its recipe is not complete ({reason})")
        parts = {key: content[key] for key in (*RecipeFacts.KINDS, "quantizer")}
        require(isinstance(parts["quantizer"], str | None), "its quantizer is not a name")
        return RecipeFacts(**parts | {"name": RecipeName(content["name"])}, settings=content)

    @property
    def is_quantized(self) -> bool:
        """Whether its weights end in Q."""
        return self.quantizer is not None

    @property
    def grows_geometrically(self) -> bool:
        """Whether its λ is multiplied again and again, as in the paper."""
        return self.is_relaxed and self.settings.get("strength_growth", "geometric") == "geometric"

    @property
    def is_relaxed(self) -> bool:
        """Whether its λ grows."""
        return self.is_quantized and self.settings.get("initial_strength") != "inf"


@dataclass(frozen=True)
class TrainingResult(ABC):
    """A finished run; a subclass says what its epochs and its summary tell.

    Args:
        recipe: its settings.
        seed: all that is random follows from it.
        environment: versions, device, commit and date.
        start: the network that it began with; None for random weights.
        seconds: of training, over all sittings.
        epochs: a record of each.
        summary: the figures that tables are made of.
        weights: what the final file holds.
        split: what was trained on and measured with, where that is not the whole set.
        histograms: of its weights, which are in a file of their own.
        source: where it was read from, as a reader should see it.
    """

    recipe: RecipeFacts
    seed: int
    environment: Mapping[str, Fact]
    start: Start | None
    seconds: float | None
    epochs: tuple[Epoch, ...]
    summary: Ending
    weights: Weights | None
    split: Mapping[str, Fact] | None = None
    histograms: WeightHistograms | None = None
    source: str = ""

    EPOCH: ClassVar[type[Epoch]]
    ENDING: ClassVar[type[Ending]]
    IS_LESS_BETTER: ClassVar[bool] = False  # of scores
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
            "initial_checkpoint": None if self.start is None else content_of(self.start),
            **({} if self.split is None else {"split": dict(self.split)}),
            "seconds": self.seconds,
            "epochs": [record.to_json() for record in self.epochs],
            "summary": self.summary.to_json(),
            "weights": None if self.weights is None else self.weights.to_json(),
        }

    @classmethod
    def from_json(cls, content: Any, source: str = "") -> Self:
        """The result in such a file; a `ValueError` says why it is none."""
        require(isinstance(content, dict), "it is no result of a run")
        wrong = wrong_kind(content, cls.KINDS)
        require(wrong is None, f"it is no result of a run ({wrong})")
        recipe = RecipeFacts.from_json(content["recipe"])
        told = {key: value for key, value in content.items() if value is not None}
        wrong = wrong_kind(told, cls.OPTIONAL, needed=False)
        require(wrong is None, wrong or "")
        require(bool(content["epochs"]), "it has no epochs")
        records = map(cls.EPOCH.from_json, content["epochs"], range(len(content["epochs"])))
        environment = told.get("environment", {})
        result = cls(
            recipe=recipe,
            seed=content["seed"],
            environment=environment,
            start=filled(Start, told["initial_checkpoint"])
            if "initial_checkpoint" in told
            else None,
            seconds=told.get("seconds"),
            epochs=tuple(records),
            summary=cls.ENDING.from_json(content["summary"]),
            weights=Weights.from_json(told["weights"]) if "weights" in told else None,
            split=told.get("split"),
            source=source,
        )
        require(result.seconds is None or is_number(result.seconds), "its seconds are not a number")
        commit = environment.get("git_commit")
        require(isinstance(commit, str | None), "its git_commit is not a name")
        return result

    @property
    def name(self) -> RecipeName:
        """The recipe's."""
        return self.recipe.name

    @property
    def method(self) -> str:
        """How its weights came into Q."""
        return self.recipe.method

    @property
    def label(self) -> str:
        """The method as people call it."""
        return LABELS.get(self.method, self.method)

    @property
    def digest(self) -> str | None:
        """That of the final file, where it is told."""
        return self.weights.digest if self.weights else None

    @property
    def phase_two(self) -> Sequence[Epoch]:
        """The epochs of Phase II; of methods without phases the same ones."""
        return self.epochs[self.recipe.phase_two_epoch :]

    @property
    def last(self) -> float:
        """What was measured after the last epoch."""
        return self.summary.last

    @property
    def best(self) -> float | None:
        """The best of Phase II, chosen by looking at it; None without a Phase II."""
        return self.summary.best_phase_two

    @property
    def finite_strengths(self) -> list[float]:
        """λ at the end of each epoch of Phase I."""
        strengths = [record.strength for record in self.epochs]
        return [s for s in strengths if s is not None and math.isfinite(s)]
