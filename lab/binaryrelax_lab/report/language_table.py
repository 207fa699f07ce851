"""Language models by recipe: losses on whole texts, means over seeds, and what they write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from binaryrelax_lab.results import VALIDATION, LanguageResult, Sample, TextScore
from binaryrelax_lab.results.statistics import Spread, spread_of


@dataclass(frozen=True)
class LanguageRow:
    """A recipe with its runs, which differ in their seeds and have the same texts."""

    name: str
    runs: Sequence[LanguageResult]

    @property
    def label(self) -> str:
        """The method as people call it."""
        return self.runs[0].label

    @property
    def texts(self) -> list[str]:
        """Names of what all runs were measured on, the validation text first."""
        names = [name for name in self.runs[0].summary.texts or {} if name != VALIDATION]
        return [
            VALIDATION,
            *(name for name in names if all(_knows(run, name) for run in self.runs)),
        ]

    def loss(self, text: str) -> Spread | None:
        """In nats per token."""
        return spread_of(run.score(text).loss for run in self.runs)

    def perplexity(self, text: str) -> Spread | None:
        """exp(loss), a mean over seeds."""
        return spread_of(run.score(text).perplexity for run in self.runs)

    def bits_per_byte(self, text: str) -> Spread | None:
        """Which no tokenizer changes."""
        return spread_of(run.score(text).bits_per_byte for run in self.runs)

    def bigrams(self, text: str) -> float | None:
        """The loss of counting pairs of tokens, for comparison."""
        scores: list[TextScore] = [run.score(text) for run in self.runs]
        return scores[0].bigrams

    @property
    def samples(self) -> Sequence[Sample]:
        """What the network of the first seed writes."""
        return self.runs[0].summary.samples


def language_rows(runs: Sequence[LanguageResult]) -> list[LanguageRow]:
    """A row for each recipe and text that it was trained on, in alphabetical order."""
    together: dict[tuple[str, str], list[LanguageResult]] = {}
    for run in runs:
        corpus = str((run.split or {}).get("corpus", ""))
        together.setdefault((corpus, run.name), []).append(run)
    return [
        LanguageRow(f"{name}, {corpus}", group)
        for (corpus, name), group in sorted(together.items())
    ]


def _knows(run: LanguageResult, text: str) -> bool:
    return text in (run.summary.texts or {})
