"""The pictures of weights on their way into Q: the animation of the README, and the phases."""

from __future__ import annotations

from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.phase_picture import phase_picture
from binaryrelax_lab.report.sliding_animation import sliding_animation
from binaryrelax_lab.results.weight_paths import WeightPaths

FILE = "results/findings/sliding-weights.json"


def animation(evidence: Evidence) -> bytes:
    """A layer of the demo's ternary network, from its float weights to Q."""
    return sliding_animation(_paths(evidence))


def phases(evidence: Evidence) -> bytes:
    """λ over its training, and what the weights do."""
    return phase_picture(_paths(evidence))


def _paths(evidence: Evidence) -> WeightPaths:
    [record] = evidence.read(FILE, "records")
    return WeightPaths.from_json(record)


PICTURES = {"sliding-weights.svg": animation, "phases.svg": phases}
