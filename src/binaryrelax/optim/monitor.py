"""What training does to each quantized layer, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from binaryrelax.optim.optimizer import BinaryRelax
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.sharded_weights import Shards, local_part, shards_of, whole

Iterate = dict[Tensor, Tensor]


@dataclass(frozen=True)
class LayerRecord:
    """One quantized weight at one moment.

    Flips are None at the first call of ``measure``. Movement and alpha are None outside
    ``monitor``, before a step, and after weights were adopted or loaded. Alpha is also None where
    x did not move.

    Attributes:
        name: of the parameter in the model.
        num_weights: how many weights it has.
        strength: λ of the current x.
        distance: of x to Q, which is dist(y, Q) / (λ + 1).
        float_distance: of the float weights y to Q.
        scale: of the projection; the mean over groups where there are several.
        zeros: fraction of codes that are 0.
        sign_flips: fraction of codes that went from one sign to the other since the last call.
        level_flips: fraction of codes that changed at all since the last call.
        movement: ||x^{k+1} - x^k|| of the last step.
        alpha: α_k of the paper's approximate-orthogonality lemma for the last step.

    Examples:
        >>> import torch
        >>> from binaryrelax import BinaryRelax, GeometricGrowth, Ternary, measure, select_weights
        >>> layer = torch.nn.Linear(100, 10)
        >>> sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
        >>> optimizer = BinaryRelax(sgd, select_weights(layer, Ternary()), GeometricGrowth(3.0))
        >>> [record] = measure(optimizer)
        >>> record.name, record.num_weights, record.strength
        ('weight', 1000, 3.0)
        >>> round(record.float_distance / record.distance, 3)  # λ + 1
        4.0
    """

    name: str
    num_weights: int
    strength: float
    distance: float
    float_distance: float
    scale: float
    zeros: float
    sign_flips: float | None
    level_flips: float | None
    movement: float | None
    alpha: float | None


@dataclass(frozen=True)
class _Previous:
    """The weights before the last step; of no use once others have been written or loaded."""

    x: Iterate
    y: Iterate
    num_rewrites: int


# Kept beside the optimizers, not in them: measuring is no part of a training state.
_last_codes: WeakKeyDictionary[BinaryRelax, Iterate] = WeakKeyDictionary()
_previous: WeakKeyDictionary[BinaryRelax, _Previous] = WeakKeyDictionary()


@torch.no_grad()
def measure(optimizer: BinaryRelax) -> list[LayerRecord]:
    """A record for each quantized weight; waits for the device.

    Keeps one byte per weight until the next call (four with more than 256 codes), to count what
    flipped. Of sharded weights it measures the whole; every process must call it and gets the same
    records.

    Args:
        optimizer: whose weights to measure.

    Raises:
        RuntimeError: inside ``projected()``.
        ValueError: the float weights are not finite, or others than x were written into the model;
            the parameters are named.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, BinaryRelax, Hard, measure, select_weights
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> _ = torch.nn.init.ones_(layer.weight)
        >>> sgd = torch.optim.SGD(layer.parameters(), lr=2.0)
        >>> optimizer = BinaryRelax(sgd, select_weights(layer, Binary()), Hard())
        >>> measure(optimizer)[0].sign_flips is None  # there is nothing to compare with yet
        True
        >>> layer(torch.tensor([1.0, -1.0])).sum().backward()
        >>> optimizer.step()
        >>> measure(optimizer)[0].sign_flips
        0.5
    """
    if optimizer.is_projected:
        raise RuntimeError(
            "measure() inside projected(): x is not there to measure; leave it first"
        )
    optimizer.refuse_non_finite()
    optimizer.refuse_replaced("measure()")
    codes: Iterate = {}
    last_codes = _last_codes.get(optimizer, {})
    rows = []
    for weight, y in optimizer.float_weights.items():
        quantizer = optimizer.quantizers[weight]
        shards, scale, code = shards_of(y), *quantizer.split_finite(y)
        projected, code = local_part(scale * code), local_part(code)
        codes[weight] = _indices(code, quantizer)
        numbers = {
            "distance": _norm(local_part(weight).double() - projected, shards),
            "float_distance": _norm(local_part(y).double() - projected, shards),
            "scale": whole(scale).double().mean(),
            "zeros": _fraction(code == 0, weight),
            **_flips(codes[weight], last_codes.get(weight), quantizer, weight),
            **_movement(optimizer, weight),
        }
        rows.append(numbers)
    _last_codes[optimizer] = codes
    return _records(optimizer, rows)


@contextmanager
def monitor(optimizer: BinaryRelax) -> Iterator[None]:
    """Inside, keep the previous x and y, so that ``measure`` can tell movement and α_k.

    Costs two copies of the quantized weights and their writing at each step.

    Args:
        optimizer: whose weights to keep.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, BinaryRelax, Hard, measure, monitor, select_weights
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> _ = torch.nn.init.ones_(layer.weight)
        >>> sgd = torch.optim.SGD(layer.parameters(), lr=2.0)
        >>> optimizer = BinaryRelax(sgd, select_weights(layer, Binary()), Hard())
        >>> with monitor(optimizer):  # x goes from [1, 1] to [-2, 2]
        ...     layer(torch.tensor([1.0, -1.0])).sum().backward()
        ...     optimizer.step()
        ...     record = measure(optimizer)[0]
        >>> record.movement == 10**0.5
        True
    """

    def remember(*_: Any) -> None:
        _previous[optimizer] = _Previous(
            x={w: w.detach().clone() for w in optimizer.quantizers},
            y={w: y.clone() for w, y in optimizer.float_weights.items()},
            num_rewrites=optimizer.num_rewrites,
        )

    handle = optimizer.register_step_pre_hook(remember)
    try:
        yield
    finally:
        handle.remove()
        _previous.pop(optimizer, None)


def _indices(code: Tensor, quantizer: Quantizer) -> Tensor:
    """Codes as indices into the codebook, one byte each where that will do."""
    index = torch.uint8 if len(quantizer.codebook) <= 256 else torch.int32
    codebook = torch.tensor(quantizer.codebook, dtype=code.dtype, device=code.device)
    return torch.bucketize(code.contiguous(), codebook).to(index)  # else it warns


def _flips(
    now: Tensor, before: Tensor | None, quantizer: Quantizer, weight: Tensor
) -> dict[str, Tensor]:
    if before is None:
        return {}
    signs = torch.tensor(quantizer.codebook, device=now.device).sign()
    opposite = signs[now.int()] * signs[before.int()] < 0
    return {
        "sign_flips": _fraction(opposite, weight),
        "level_flips": _fraction(now != before, weight),
    }


def _movement(optimizer: BinaryRelax, weight: Tensor) -> dict[str, Tensor]:
    """||x^{k+1} - x^k||, and α_k from its defining equation (lemma "approximate orthogonality").

    α_k ||x^{k+1} - x^k||^2 + ||y^k - x^k||^2 = ||y^k - x^{k+1}||^2

    The difference of the two squares is taken as one inner product, which does not cancel.
    """
    previous = _previous.get(optimizer)
    if previous is None or previous.num_rewrites != optimizer.num_rewrites:
        return {}
    if weight not in previous.x:  # it has joined since
        return {}
    x, y = local_part(previous.x[weight]).double(), local_part(previous.y[weight]).double()
    change, shards = local_part(weight).double() - x, shards_of(weight)
    difference = shards.total((change * (change + 2 * (x - y))).sum())
    movement = _norm(change, shards)
    return {"movement": movement, "alpha": difference / movement.square()}


def _fraction(where: Tensor, weight: Tensor) -> Tensor:
    return shards_of(weight).total(where.sum()).double() / max(weight.numel(), 1)


def _norm(w: Tensor, shards: Shards) -> Tensor:
    return shards.total(w.double().square().sum()).sqrt()


def _records(optimizer: BinaryRelax, rows: list[dict[str, Tensor]]) -> list[LayerRecord]:
    home = next(iter(rows[0].values())).device
    flat = torch.stack([value.to(home) for row in rows for value in row.values()]).tolist()
    values = iter(flat)
    optional: dict[str, Any] = dict.fromkeys(("sign_flips", "level_flips", "movement", "alpha"))
    return [
        LayerRecord(
            name=optimizer.names[weight],
            num_weights=weight.numel(),
            strength=optimizer.strength,
            **{**optional, **{key: _or_none(next(values)) for key in row}},
        )
        for weight, row in zip(optimizer.quantizers, rows, strict=True)
    ]


def _or_none(value: float) -> float | None:
    return None if value != value else value  # NaN: α of a step that did not move x
