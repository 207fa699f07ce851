"""PARQ in place of BinaryRelax: the optimizer of torchao, as it comes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from binaryrelax import PerLayer, Quantizer
from binaryrelax_lab.language.requirements import needed_torchao


class Parq(Optimizer):
    """Wraps an optimizer; piecewise-affine maps move the chosen weights from float into Q.

    torchao takes the steps (`QuantOptimizer` with `ProxPARQ`, at its own steepness): the slope of
    the maps grows from step 0 on, until they are steps at `hard_from`. Q is that of the quantizer,
    chosen anew at each step, as BinaryRelax does.

    It is the Q that torchao's own `LSBQuantizer` seeks: the mean magnitude with 1 bit, and with
    `optimal=True` the least squares with three levels. But with 1 bit that rounds each weight by
    itself, so that a layer ends with more than two values, and its least squares of a whole layer
    take 18 seconds for a million weights. Its default for three levels, 1.1 times the mean
    magnitude, is a heuristic.

    Args:
        base: what moves the weights; its groups hold quantized weights or others, never both.
        weights: parameter -> quantizer, the same for all, with one scale per layer.
        hard_from: the step that writes the first weights in Q; they stay there.

    Raises:
        ValueError: torchao is not installed; or the quantizers are others.
    """

    def __init__(
        self, base: Optimizer, weights: Mapping[Tensor, Quantizer], *, hard_from: int
    ) -> None:
        parq = needed_torchao("torchao.prototype.parq")
        self.base, self.hard_from = base, hard_from
        self.weights, self._sets = tuple(weights), _Sets(weights)
        _mark(base, weights)
        annealing = parq.ProxPARQ(0, hard_from) if hard_from else parq.ProxHardQuant()
        self._theirs = parq.QuantOptimizer(base, self._sets, annealing, quant_period=1)
        super().__init__(base.param_groups, base.defaults)
        self._share_with_base()

    @property
    def phase(self) -> int:
        """1 while the maps have a slope, 2 once the weights are held in Q."""
        return 1 if self._theirs.num_steps <= self.hard_from else 2

    @property
    def strength(self) -> float | None:
        """There is no λ in Phase I; in Phase II it is infinite."""
        return None if self.phase == 1 else math.inf

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move the latent weights with the gradient at the network's, then write these anew."""
        if closure is not None:
            raise ValueError("Parq.step(closure): PARQ would evaluate it elsewhere than it trains")
        self._theirs.step()

    @contextmanager
    def projected(self) -> Iterator[None]:
        """Inside, the network holds the latent weights projected onto Q; after, what it held."""
        held = [weight.detach().clone() for weight in self.weights]
        try:
            self._write(map(self._sets.project, map(self._latent, self.weights)))
            yield
        finally:
            self._write(held)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, latent weights too; the network's are not in it."""
        return self._theirs.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from `state_dict`, with a network that holds the weights of then."""
        self._theirs.load_state_dict(state_dict)
        self._share_with_base()

    def _share_with_base(self) -> None:
        self.param_groups, self.state = self.base.param_groups, self.base.state

    def _latent(self, weight: Tensor) -> Tensor:
        """Before the first step the network holds them."""
        latent: Tensor = self.state.get(weight, {}).get("latent", weight)
        return latent

    @torch.no_grad()
    def _write(self, values: Any) -> None:
        for weight, value in zip(self.weights, values, strict=True):
            weight.copy_(value)


class _Sets:
    """A quantizer of ours, as torchao calls its own."""

    def __init__(self, weights: Mapping[Tensor, Quantizer]) -> None:
        self.quantizer, *others = set(weights.values())
        if others or self.quantizer.granularity != PerLayer():
            raise ValueError(
                f"quantizer={self.quantizer!r}: PARQ takes one with a single scale per layer here"
            )
        device = next(iter(weights)).device
        self.codebook = torch.tensor(self.quantizer.codebook, device=device)

    def project(self, weight: Tensor) -> Tensor:
        """The nearest weights in Q."""
        return self.quantizer.project_finite(weight)

    def get_quant_size(self, bits: int) -> int:
        """How many values a layer may take."""
        return len(self.codebook)

    def quantize(self, weight: Tensor, bits: int, dim: int | None = None) -> tuple[Tensor, Tensor]:
        """The weights in Q, and the values that they may take."""
        if weight.device.type == "cpu":  # elsewhere it would wait, and the loss tells of it too
            self.quantizer.check(weight)
        scale, codes = self.quantizer.split_finite(weight)
        return codes.mul_(scale), scale.reshape(1) * self.codebook


def _mark(base: Optimizer, weights: Mapping[Tensor, Quantizer]) -> None:
    """Tells torchao by "quant_bits" which groups to quantize; 0 stands for three levels."""
    for group in base.param_groups:
        chosen = [parameter in weights for parameter in group["params"]]
        if any(chosen):
            assert all(chosen), "a group holds quantized weights, or others"
            group["quant_bits"] = 0
