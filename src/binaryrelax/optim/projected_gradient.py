"""The classical projected gradient scheme, which stagnates at small learning rates."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.optimizer import BinaryRelax
from binaryrelax.optim.relaxed_weights import AT_RELAXED_WEIGHTS
from binaryrelax.optim.schedules import Hard
from binaryrelax.quantizers import Quantizer


class ProjectedGradient(BinaryRelax):
    """Projected (stochastic) gradient descent: the step starts at x, not at y.

        y^{k+1} = x^k - lr * gradient at x^k,   x^{k+1} = proj_Q(y^{k+1})      (eq. 2)

    A step shorter than half the way to the next level is rounded off, so small learning rates
    change nothing. Kept to show that; for training use ``BinaryRelax``.

    Args:
        base: any ``torch.optim`` optimizer that already holds the parameters.
        weights: parameter -> quantizer, as ``select_weights`` gives it.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, ProjectedGradient, select_weights
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> _ = torch.nn.init.ones_(layer.weight)
        >>> sgd = torch.optim.SGD(layer.parameters(), lr=0.01)
        >>> optimizer = ProjectedGradient(sgd, select_weights(layer, Binary()))
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     layer(torch.tensor([1.0, -1.0])).sum().backward()
        ...     optimizer.step()
        >>> layer.weight.tolist()  # SGD alone would have reached [-1, 3]
        [[1.0, 1.0]]
    """

    def __init__(self, base: Optimizer, weights: Mapping[Tensor, Quantizer]) -> None:
        super().__init__(base, weights, Hard(), starting_point=AT_RELAXED_WEIGHTS)
