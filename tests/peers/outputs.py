"""What networks compute, and how far apart two of them are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.network import Inputs

MARGIN = 4.0  # two right computations round in other places; neither errs much more than the other
SHARP = 0.1  # a float network that errs more, relative to its largest output, is no measure


@torch.no_grad()
def outputs(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """All floating-point tensors that the model returns, for inputs in its own precision."""
    place = next(tensor for tensor in model.parameters() if tensor.is_floating_point())
    return list(_tensors(model(**{name: _like(place, x) for name, x in inputs.items()})))


@torch.no_grad()
def generated(model: Any, inputs: Inputs, num_tokens: int) -> Tensor:
    """The most likely tokens after these, one by one."""
    device = next(model.parameters()).device
    tokens = inputs["input_ids"].to(device)
    return model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=num_tokens, do_sample=False
    )


def same_bits(first: list[Tensor], second: list[Tensor]) -> bool:
    """Whether all tensors are equal; one that is not a number is not."""
    pairs = zip(first, second, strict=True)
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


def distance(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference, relative to the largest value of the tensor; inf if any is no number.

    The worst tensor counts.
    """
    return max(_distance(a.double(), b.double()) for a, b in zip(found, wanted, strict=True))


def is_rounding(difference: float, errors: tuple[float, float], dtype: torch.dtype) -> bool:
    """Whether no more than rounding tells the packed network's outputs from the float one's.

    They are equal up to a few units in the last place, or packed and float network are about as
    far from the truth: from the same network, with the same rounded parameters, in float64. Where
    rounding alone moves the output of the float network far, as in a deep network in bfloat16,
    being as far proves nothing.

    Args:
        difference: between the two.
        errors: of the packed and of the float network, from the truth.
        dtype: that both compute in.
    """
    packed, plain = errors
    unit = torch.finfo(dtype).eps
    is_alike = plain <= SHARP and packed <= MARGIN * max(plain, unit)
    return difference <= MARGIN * unit or is_alike


def idle_weights(model: nn.Module, inputs: Inputs, weights: Mapping[Tensor, str]) -> list[str]:
    """The names of weights that the outputs do not depend on: nothing is shown of these."""
    place = next(model.parameters())
    found = _tensors(model(**{name: _like(place, x) for name, x in inputs.items()}))
    generator = torch.Generator().manual_seed(0)
    total = sum((y * torch.randn(y.shape, generator=generator).to(y)).sum() for y in found)
    gradients = torch.autograd.grad(total, list(weights), allow_unused=True)
    names = zip(weights.values(), gradients, strict=True)
    return [name for name, gradient in names if gradient is None or not gradient.any()]


def _distance(found: Tensor, wanted: Tensor) -> float:
    if found.shape != wanted.shape or not found.isfinite().all():
        return float("inf")
    largest = float(wanted.abs().max()) or 1.0
    return float((found - wanted).abs().max()) / largest


def _like(place: Tensor, tensor: Tensor) -> Tensor:
    """Moved to where the model is; tokens stay whole numbers."""
    return tensor.to(place.device, place.dtype if tensor.is_floating_point() else tensor.dtype)


def _tensors(value: Any) -> Iterator[Tensor]:
    """The floating-point tensors in what a model returned, whose containers may hold others."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
