"""The methods of the paper on many starts at once: a step of all of them is a few tensor calls."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.optim.relaxation import mixing_weight
from binaryrelax.optim.schedules import Hard, Schedule
from binaryrelax.quantizers import Quantizer


@dataclass(frozen=True)
class Method:
    """One way to descend.

    Args:
        schedule: λ by step; `Hard()` for BinaryConnect and the projected gradient.
        from_projection: the step starts at x (eq. 2), not at the float weights y (eq. 10).
    """

    name: str
    schedule: Schedule
    from_projection: bool = False


PROJECTED_GRADIENT = Method("projected gradient", Hard(), from_projection=True)
BINARY_CONNECT = Method("BinaryConnect", Hard())


@dataclass(frozen=True)
class Descent:
    """What all runs of an experiment share.

    Args:
        gradient: of points (methods, members, starts, weights).
        quantizer: with one scale per row (`PerChannel`), since every start is a row.
        rates: the learning rate of each step.
        noise: the root of the mean square of the noise in the gradient, σ of the paper.
        seed: of the noise, which is the same for all methods.
    """

    gradient: Callable[[Tensor], Tensor]
    quantizer: Quantizer
    rates: list[float]
    noise: float = 0.0
    seed: int = 0

    def project(self, y: Tensor) -> Tensor:
        """The nearest point of Q to each row."""
        return self.quantizer.project_finite(y.reshape(-1, y.shape[-1])).reshape(y.shape)

    def run(self, methods: list[Method], starts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """x and proj(y) after each step, (methods, members, starts, weights); first those at 0."""
        shown = (len(methods), 1, 1, 1)
        at_x = torch.tensor([method.from_projection for method in methods]).reshape(shown)
        source = torch.Generator().manual_seed(self.seed)
        y = starts.expand(len(methods), *starts.shape)
        projected = self.project(y)
        x = _relax(y, projected, methods, 0)
        yield x, projected
        for step, rate in enumerate(self.rates):
            slope = self.gradient(x) + self._noise(starts, source)
            y = torch.where(at_x, x, y) - rate * slope
            projected = self.project(y)
            x = _relax(y, projected, methods, step)
            yield x, projected

    def last(self, methods: list[Method], starts: Tensor) -> Tensor:
        """proj(y) after the last step."""
        [(_, projected)] = deque(self.run(methods, starts), maxlen=1)
        return projected

    def _noise(self, starts: Tensor, source: torch.Generator) -> Tensor | float:
        if not self.noise:
            return 0.0
        normal = torch.randn(starts.shape, generator=source, dtype=starts.dtype)
        return self.noise / math.sqrt(starts.shape[-1]) * normal


def _relax(y: Tensor, projected: Tensor, methods: list[Method], step: int) -> Tensor:
    """eq. 11, with a λ for each method."""
    mix = torch.tensor([mixing_weight(m.schedule(step)) for m in methods], dtype=y.dtype)
    return torch.lerp(y, projected, mix.reshape(-1, 1, 1, 1).expand_as(y))


def cosine_rates(first: float, num_steps: int) -> list[float]:
    """From `first` to almost 0 along half a cosine."""
    return [first / 2 * (1 + math.cos(math.pi * k / num_steps)) for k in range(num_steps)]


def stepped_rates(first: float, num_steps: int) -> list[float]:
    """Divided by 10 after 2/5 and after 11/15 of the steps, as in the paper (120, 220 of 300)."""
    falls = (num_steps * 2 // 5, num_steps * 11 // 15)
    return [first * 0.1 ** sum(k >= fall for fall in falls) for k in range(num_steps)]
