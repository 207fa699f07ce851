"""What is known about a run beside its curve, as names and values for a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from binaryrelax_lab.results import RunResult, TrainingResult

LAYER_COLUMNS = {
    "num_weights": "weights",
    "distinct_values": "distinct values",
    "num_zeros": "zeros",
    "in_q": "in Q",
    "distance": "distance to Q",
    "bits_per_weight": "bits per weight",
}


@dataclass(frozen=True)
class LayerTable:
    """A line for each layer: how many values it takes, and whether these are in Q."""

    headings: list[str]
    lines: list[list[str]]


def circumstances(run: TrainingResult) -> Mapping[str, object]:
    """Where and from what a run was made, by name."""
    recalibrated = run.last_recalibrated if isinstance(run, RunResult) else None
    return {
        "seed": run.seed,
        "seconds": run.seconds,
        "last": run.last,
        "last, recalibrated": recalibrated,
        "best of Phase II": run.best,
        "mean of the last 5 epochs": run.summary.mean_last_5,
        "in Q": run.summary.in_q,
        "starts from": run.start and run.start.name,
        "starts from (sha256)": run.start and run.start.digest,
        "final weights (sha256)": run.digest,
        **run.environment,
        "file": run.source or None,
    }


def layer_table(run: TrainingResult) -> LayerTable:
    """Columns that no layer has a value for are left out."""
    layers = run.weights.layers if run.weights else ()
    keys = [key for key in LAYER_COLUMNS if any(getattr(x, key) is not None for x in layers)]
    return LayerTable(
        ["layer", *(LAYER_COLUMNS[key] for key in keys)],
        [[shown(x.name), *(_cell(getattr(x, key)) for key in keys)] for x in layers],
    )


def shown(value: object) -> str:
    """A value as a reader would write it; digests shortened."""
    if value is None:
        return "-"
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return value[:12] + "…"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else shown(value)
