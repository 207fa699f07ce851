"""The classical projected gradient scheme, which stagnates at small learning rates."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.optimizer import BinaryRelax
from binaryrelax.optim.relaxed_weights import RelaxedWeights
from binaryrelax.optim.schedules import Hard
from binaryrelax.quantizers import Quantizer


class StartingAtRelaxed(RelaxedWeights):
    """Weights of which ``base`` moves x, as the parameters hold it, into the next y."""

    def refuse_replaced_before_step(self, call: str) -> None:
        """Weights that others write are not refused: they are where the step starts."""
        self._refuse_misplaced(call)

    def copies_to_restore(self) -> dict[Tensor, Tensor]:
        """x of all weights: those that others have written cannot be made again from y."""
        return {weight: weight.detach().clone() for weight in self.quantizers}

    def _copied(self, *, has_closure: bool) -> dict[Tensor, Tensor]:
        return self.float_weights

    def _load(self, copied: dict[Tensor, Tensor]) -> None:
        """Nothing to load: ``base`` starts from the x that the parameters hold."""


class ProjectedGradient(BinaryRelax):
    """Projected (stochastic) gradient descent: the step starts at x, not at y.

    y^{k+1} = x^k - lr * gradient at x^k,   x^{k+1} = proj_Q(y^{k+1})      (eq. 2)

    A step shorter than half the way to the next level is rounded off, so small learning rates
    change nothing. Kept to show that; for training use ``BinaryRelax``.
    """

    _kind_of_weights = StartingAtRelaxed

    def __init__(self, base: Optimizer, weights: Mapping[Tensor, Quantizer]) -> None:
        super().__init__(base, weights, Hard())
