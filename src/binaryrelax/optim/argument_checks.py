"""Checks of what an optimizer is given: each error names the call, the rule and the value."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.schedules import Schedule
from binaryrelax.quantizers import Quantizer


def refuse_wrong_arguments(
    call: str, base: object, weights: object, schedule: object, wrapper: type
) -> None:
    """Raise ValueError unless each argument of ``wrapper`` is of its kind; it wraps no other."""
    if not isinstance(base, Optimizer) or isinstance(base, wrapper):
        raise ValueError(
            f"{call}(base={type(base).__name__}): base must be a torch.optim optimizer"
        )
    if not isinstance(schedule, Schedule):
        raise ValueError(
            f"{call}(schedule={schedule!r}): need a Schedule like Hard() or GeometricGrowth(...)"
        )
    if not weights:
        raise ValueError(f"{call}(weights={weights!r}): need a dict from parameter to quantizer")


def refuse_wrong_weights(call: str, weights: object) -> None:
    """Raise ValueError unless ``weights`` is a dict from parameter to quantizer."""
    if not isinstance(weights, Mapping):
        raise ValueError(f"{call}(weights={weights!r}): need a dict from parameter to quantizer")
    for weight, quantizer in weights.items():
        if not isinstance(weight, Tensor) or not isinstance(quantizer, Quantizer):
            pair = f"{type(weight).__name__}: {quantizer!r}"
            raise ValueError(f"{call}(weights={{{pair}}}): need parameter: quantizer")


def refuse_unheld(weight: Tensor, base: Optimizer, name: str) -> None:
    """Raise ValueError unless ``base`` has the weight among its parameters; it is named."""
    if not _holds(base, weight):
        raise ValueError(
            f"{name} of shape {tuple(weight.shape)} is not held by {type(base).__name__}: "
            "hand it that parameter too, or keep it float"
        )


def refuse_exchanged(call: str, names: Mapping[Tensor, str], base: Optimizer) -> None:
    """Raise ValueError, named after ``call``, if ``base`` has lost weights that it held."""
    found = [name for weight, name in names.items() if not _holds(base, weight)]
    if found:
        raise ValueError(
            f"{call}: somebody has exchanged {first_few(found)} in {type(base).__name__}, as "
            "accelerate does when it shards a model (FSDP2): shard the model first, then build the "
            "optimizer"
        )


def _holds(base: Optimizer, weight: Tensor) -> bool:
    return any(weight is parameter for group in base.param_groups for parameter in group["params"])


def refuse_unfit(weight: Tensor, quantizer: Quantizer, name: str) -> None:
    """Raise ValueError unless ``quantizer`` can project the weight; it is named."""
    try:
        quantizer.check(weight.detach())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def warn_of_half_precision(names: list[str]) -> None:
    """Warn whoever constructs the optimizer that these weights lose small updates."""
    if names:
        warnings.warn(
            f"float weights in half precision lose small updates ({', '.join(names)}); "
            "keep parameters in float32 and train under torch.autocast",
            stacklevel=4,
        )


def first_few(names: list[str]) -> str:
    """The names, or where they would fill the screen, the first of them and how many follow."""
    more = len(names) - 3
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:3])} and {more} more"
