"""What a training run on text has left: losses, in nats per token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from binaryrelax_lab.results.plain_data import Json, content_of, filled, is_number, require
from binaryrelax_lab.results.training_result import Ending, Epoch, TrainingResult

VALIDATION = "validation"  # the text that every run is measured on


LARGEST_LOSS = 700.0  # in nats; the exponential of a little more has no float


def perplexity_of(loss: float) -> float:
    """exp(loss), as far as there are numbers."""
    return math.exp(min(loss, LARGEST_LOSS))


@dataclass(frozen=True)
class LanguageEpoch(Epoch):
    """One epoch, measured on some windows of the validation text. See `Epoch`.

    Args:
        loss: nats per token at x.
        bits_per_byte: the same, by the bytes that a token of the text has on average.
        loss_projected: at proj(y).

    Examples:
        >>> from binaryrelax_lab.results import LanguageEpoch
        >>> epoch = LanguageEpoch(0, 1, 1.0, lr=0.001, train_loss=6.0, loss=5.0)
        >>> round(epoch.perplexity, 1), LanguageEpoch.from_json(epoch.to_json(), 0) == epoch
        (148.4, True)
    """

    loss: float
    bits_per_byte: float | None = None
    loss_projected: float | None = None

    SCORE, PROJECTED = "loss", "loss_projected"
    NEEDED = ("loss",)
    OPTIONAL = ("bits_per_byte", "loss_projected")

    @property
    def perplexity(self) -> float:
        """Among how many tokens it wavers, as it were."""
        return perplexity_of(self.loss)

    def to_json(self) -> Json:
        """The entry of ``result.json``."""
        return {**super().to_json(), "perplexity": self.perplexity}


@dataclass(frozen=True)
class TextScore:
    """How well a network foretells a whole text.

    Args:
        loss: nats per token.
        perplexity: exp(loss).
        bits_per_byte: of the text, so that other tokenizers can be compared.
        num_tokens: that were foretold.
        bigrams: the loss of counting pairs of the tokens that the network was trained on.
    """

    loss: float
    perplexity: float
    bits_per_byte: float
    num_tokens: int
    bigrams: float | None = None

    @staticmethod
    def from_json(content: Any, name: str) -> TextScore:
        """Raises ValueError if it is none."""
        require(isinstance(content, dict), f"its score of {name} is no record")
        score: TextScore = filled(TextScore, content)
        told = (score.loss, score.perplexity, score.bits_per_byte, score.num_tokens)
        require(all(map(is_number, told)), f"its score of {name} is not complete")
        return score


@dataclass(frozen=True)
class Sample:
    """What a network wrote after a few words."""

    prompt: str
    text: str


@dataclass(frozen=True)
class LanguageSummary(Ending):
    """The figures that tables are made of; losses in nats per token, the best is the least.

    Args:
        texts: the score on each whole text, by its name; `VALIDATION` is always there.
        samples: what the network writes.
    """

    texts: Mapping[str, TextScore] | None = None
    samples: Sequence[Sample] = ()

    def to_json(self) -> Json:
        """The part of ``result.json``."""
        texts = {name: content_of(score) for name, score in (self.texts or {}).items()}
        return {
            **super().to_json(),
            "texts": texts,
            "samples": [content_of(sample) for sample in self.samples],
        }

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """Raises ValueError if it is none."""
        texts, samples = content.get("texts") or {}, content.get("samples") or []
        require(isinstance(texts, dict), "its texts are no record")
        require(
            isinstance(samples, list) and all(isinstance(sample, dict) for sample in samples),
            "its samples are not a list of records",
        )
        scores = {name: TextScore.from_json(told, name) for name, told in texts.items()}
        said = tuple(filled(Sample, sample) for sample in samples)
        return super().from_json({**content, "texts": scores, "samples": said})


@dataclass(frozen=True)
class LanguageResult(TrainingResult):
    """A finished run on text. See `TrainingResult`."""

    epochs: tuple[LanguageEpoch, ...]
    summary: LanguageSummary

    EPOCH, ENDING, IS_LESS_BETTER = LanguageEpoch, LanguageSummary, True

    @property
    def loss(self) -> float:
        """Nats per token on the whole validation text, after the last epoch."""
        return self.score(VALIDATION).loss

    def score(self, text: str) -> TextScore:
        """How well it foretells a whole text of that name."""
        texts = self.summary.texts or {}
        if text not in texts:
            raise ValueError(f"{self.name} was not measured on {text}, but on {', '.join(texts)}")
        return texts[text]
