"""What all hosts share: the schedule in shares of the training, its figures, and how it ended."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from torch import Tensor

from binaryrelax.optim import BinaryRelax, Schedule, SelectedWeights, measure
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.sharded_weights import whole

Plan = Schedule | Callable[[int], Schedule]  # the schedule, or what makes it of the number of steps


def schedule_over(plan: Plan, num_steps: int) -> Schedule:
    """The schedule of a training of that many steps.

    Raises:
        ValueError: there is none; the plan is named.
    """
    schedule = plan if isinstance(plan, Schedule) else plan(num_steps)
    if not isinstance(schedule, Schedule):
        raise ValueError(
            f"schedule={plan!r} gave {schedule!r} for {num_steps} steps: give a Schedule, or a "
            "function from the number of steps to one, such as GeometricGrowth.over"
        )
    return schedule


def refuse_half_precision(weights: SelectedWeights, call: str, instead: str) -> None:
    """Raise ValueError if y would lose small updates; ``instead`` is the host's autocast."""
    for weight in weights:
        if weight.dtype.itemsize < 4:
            raise ValueError(
                f"{call}: {weights.names[weight]!r} is {weight.dtype}, which loses small updates: "
                f"load the model with dtype=torch.float32 and train with {instead}"
            )


def figures(optimizer: BinaryRelax) -> dict[str, float]:
    """λ, phase, distance of the model to Q, and the share of codes that changed since the last.

    The first time there is nothing to compare codes with, and their share is missing.
    """
    records = measure(optimizer)
    found = {
        "relax/strength": optimizer.strength,
        "relax/phase": float(optimizer.phase),
        "relax/distance": math.hypot(*(record.distance for record in records)),
    }
    flips = [r.level_flips * r.num_weights for r in records if r.level_flips is not None]
    if flips:
        found["relax/level_flips"] = sum(flips) / sum(record.num_weights for record in records)
    return found


def is_in_q(optimizer: BinaryRelax) -> bool:
    """Whether each scale of each quantized weight has at most as many values as the codebook.

    It looks at the model: hosts may load other weights at the end, those of their best step. If
    they do not lie in Q, a warning names them.
    """
    outside = [
        optimizer.names[weight]
        for weight, quantizer in optimizer.quantizers.items()
        if not _has_few_values(weight, quantizer)
    ]
    if outside:
        warnings.warn(
            f"training ended with {len(outside)} of {len(optimizer.quantizers)} weights outside of "
            f"Q ({outside[0]!r} is the first): it stopped in Phase I, or loaded weights from there",
            stacklevel=3,
        )
    return not outside


def _has_few_values(weight: Tensor, quantizer: Quantizer) -> bool:
    """Whatever the quantizer's scale is: that of a heuristic need not reproduce itself."""
    groups = quantizer.granularity.rows(whole(weight.detach())).sort(dim=1).values
    most = int(groups.diff(dim=1).count_nonzero(dim=1).max()) + 1
    return most <= len(quantizer.codebook)
