"""What committed runs of language models have come to."""

from __future__ import annotations

from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.results import VALIDATION, LanguageResult

ON_A_CPU = "results/text/lm-small-relax-ternary/seed0.json"


def on_a_cpu(evidence: Evidence) -> str:
    """The small network beside counts of pairs, in a sentence or two."""
    run = LanguageResult.from_json(evidence.read(ON_A_CPU))
    score, seen = run.score(VALIDATION), (run.split or {})["trained_on_tokens"]
    assert isinstance(seen, int) and score.bigrams is not None and run.seconds is not None
    return (
        f"One run on WikiText-2 took {run.seconds / 60:.1f} minutes with "
        f"{run.environment['threads']} threads, and saw {seen / 1e6:.1f} million tokens. It ended "
        f"at a validation loss of {score.loss:.3f} ({score.bits_per_byte:.3f} bits per byte). "
        f"Counting pairs in the whole training text reaches {score.bigrams:.3f}."
    )


SECTIONS = {"language-on-a-cpu": on_a_cpu}
