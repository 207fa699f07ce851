"""Language models by recipe: losses on whole texts, means over seeds, and what they write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binaryrelax_lab.report.epoch_chart import Chart, chart_of
from binaryrelax_lab.results import VALIDATION, LanguageResult, Sample, TextScore
from binaryrelax_lab.results.statistics import Spread, spread_of


@dataclass(frozen=True)
class LanguageRow:
    """A recipe with its runs, which differ in their seeds and have the same texts."""

    name: str
    corpus: str
    runs: Sequence[LanguageResult]

    @property
    def bits(self) -> str | None:
        """Binary, ternary, or None for a float network."""
        method = self.runs[0].method
        return None if method == "float" else "binary" if method.endswith("binary") else "ternary"

    @property
    def texts(self) -> list[str]:
        """Names of what all runs were measured on, the validation text first."""
        known = [set(run.summary.texts or {}) for run in self.runs]
        return [VALIDATION, *sorted(set.intersection(*known) - {VALIDATION})]

    def loss(self, text: str) -> Spread:
        """In nats per token."""
        return _spread(run.score(text).loss for run in self.runs)

    def perplexity(self, text: str) -> Spread:
        """exp(loss), a mean over seeds."""
        return _spread(run.score(text).perplexity for run in self.runs)

    def bits_per_byte(self, text: str) -> Spread:
        """Which no tokenizer changes."""
        return _spread(run.score(text).bits_per_byte for run in self.runs)

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
    together: dict[tuple[str, str, str], list[LanguageResult]] = {}
    for run in runs:
        split = run.split or {}
        corpus, digest = str(split.get("corpus", "")), str(split.get("corpus_digest", ""))
        together.setdefault((corpus, digest, run.name), []).append(run)
    groups = sorted(together.items())
    return [LanguageRow(name, corpus, runs) for (corpus, _, name), runs in groups]


def language_charts(rows: Sequence[LanguageRow]) -> dict[str, list[Chart]]:
    """Losses by epoch, for all that was trained alike: 1-bit networks, and ternary ones."""
    alike: dict[str, list[LanguageRow]] = {}
    for row in rows:
        alike.setdefault(f"{row.runs[0].name.without_method()}, {row.corpus}", []).append(row)
    charts = {}
    for words, group in alike.items():
        panels = [[r for r in group if r.bits in (bits, None)] for bits in ("binary", "ternary")]
        full = [panel for panel in panels if any(row.bits for row in panel)] or panels[:1]
        charts[words] = [chart_of([row.runs for row in panel]) for panel in full]
    return charts


def _spread(values: Iterable[float]) -> Spread:
    spread = spread_of(values)
    assert spread is not None, "a row has a run"
    return spread
