"""How the relaxation strength λ grows: functions of the step, frozen and comparable."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from binaryrelax.quantizers.validation import is_finite_number, require_number, require_whole


class Schedule(ABC):
    """λ as a function of the step number, which counts from 0.

    λ = inf is Phase II: a schedule needs no other way to say so. Subclasses are frozen dataclasses,
    because a checkpoint stores their ``repr`` and compares it when it is loaded.

    Examples:
        >>> from dataclasses import dataclass
        >>> from binaryrelax import Schedule
        >>> @dataclass(frozen=True)
        ... class Warmup(Schedule):
        ...     float_steps: int
        ...     def __call__(self, step):
        ...         return 0.0 if step < self.float_steps else float("inf")
        >>> Warmup(float_steps=2), [Warmup(2)(step) for step in range(4)]
        (Warmup(float_steps=2), [0.0, 0.0, inf, inf])
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """The strength λ in [0, inf] with which step number ``step`` writes x."""


@dataclass(frozen=True)
class GeometricGrowth(Schedule):
    """λ = initial * growth^(step // every), and inf from step ``harden_at`` on (Algorithm 1).

    The paper's CIFAR setting is λ from 1, times 1.02 after each epoch of 391 steps, Phase II from
    epoch 240: ``GeometricGrowth(1.0, 1.02, 391, 240 * 391)``.

    Args:
        initial: λ of the first steps, 0 or more.
        growth: what λ is multiplied by, 1 or more.
        every: the number of steps between two growths, say those of an epoch.
        harden_at: the first step of Phase II.

    Raises:
        ValueError: a number is out of its range, or λ overflows before ``harden_at``.

    Examples:
        >>> from binaryrelax import GeometricGrowth
        >>> schedule = GeometricGrowth(1.0, 2.0, every=10, harden_at=40)
        >>> [schedule(step) for step in (0, 9, 10, 39, 40)]
        [1.0, 1.0, 2.0, 8.0, inf]
        >>> GeometricGrowth.reaching(100, phase_one_steps=30, every=10)  # from 1 to 100
        GeometricGrowth(initial=1.0, growth=10.0, every=10, harden_at=30)
    """

    initial: float = 1.0
    growth: float = 1.02
    every: int = 391
    harden_at: int = 93_840

    def __post_init__(self) -> None:
        call = "GeometricGrowth"
        initial_holds = is_finite_number(self.initial) and self.initial >= 0
        growth_holds = is_finite_number(self.growth) and self.growth >= 1
        plain = {  # numbers of other types would be equal, but not look so in a checkpoint
            "initial": require_number(
                call, "initial", self.initial, rule=">= 0", holds=initial_holds
            ),
            "growth": require_number(call, "growth", self.growth, rule=">= 1", holds=growth_holds),
            "every": require_whole(call, "every", self.every, low=1),
            "harden_at": require_whole(call, "harden_at", self.harden_at, low=0),
        }
        for name, number in plain.items():
            object.__setattr__(self, name, number)
        self._refuse_overflow()

    def __call__(self, step: int) -> float:
        if step >= self.harden_at:
            return math.inf
        return float(self.initial * self.growth ** (step // self.every))

    @classmethod
    def reaching(
        cls, target: float, *, phase_one_steps: int, every: int, initial: float = 1.0
    ) -> GeometricGrowth:
        """The growth whose last λ of Phase I is ``target`` (the paper: between 100 and 200).

        Args:
            target: λ at step ``phase_one_steps - 1``, the last before Phase II.
            phase_one_steps: the number of steps of Phase I.
            every: steps between two growths, say those of an epoch.
            initial: λ at step 0.
        """
        call = "GeometricGrowth.reaching"
        phase_one_steps = require_whole(call, "phase_one_steps", phase_one_steps, low=1)
        every = require_whole(call, "every", every, low=1)
        initial_holds = is_finite_number(initial) and initial > 0
        initial = require_number(call, "initial", initial, rule="> 0", holds=initial_holds)
        target_holds = is_finite_number(target) and target >= initial
        rule = f">= initial={initial}"
        target = require_number(call, "target", target, rule=rule, holds=target_holds)
        num_growths = (phase_one_steps - 1) // every
        if num_growths == 0 and target != initial:
            raise ValueError(
                f"{call}({target}, phase_one_steps={phase_one_steps}, every={every}): "
                "λ never grows in Phase I; choose every < phase_one_steps"
            )
        growth = (target / initial) ** (1 / max(num_growths, 1))
        return cls(initial, growth, every, phase_one_steps)

    @classmethod
    def over(
        cls, num_steps: int, *, phase_one: float = 0.8, initial: float = 1.0, target: float = 150.0
    ) -> GeometricGrowth:
        """The growth at each step whose Phase I is a share of the training.

        Args:
            num_steps: of the whole training.
            phase_one: the share of the steps that are relaxed, from 0 to 1; the rest are Phase II.
            initial: λ at step 0.
            target: λ at the last step of Phase I.

        Examples:
            >>> from binaryrelax import GeometricGrowth
            >>> schedule = GeometricGrowth.over(100)
            >>> [round(schedule(step), 3) for step in (0, 79, 80)]
            [1.0, 150.0, inf]
        """
        harden_at = _share(f"{cls.__name__}.over", num_steps, phase_one)
        if harden_at < 2:  # no step is left to grow at
            return cls(initial, 1.0, 1, harden_at)
        return cls.reaching(target, phase_one_steps=harden_at, every=1, initial=initial)

    def _refuse_overflow(self) -> None:
        try:
            last = self(self.harden_at - 1) if self.harden_at else 0.0
        except OverflowError:
            last = math.inf
        if math.isinf(last):
            raise ValueError(
                f"{self}: λ overflows before harden_at; choose a smaller growth or harden earlier"
            )


@dataclass(frozen=True)
class LinearMix(Schedule):
    """λ/(λ+1) grows linearly from 0 at step ``start`` to 1 at step ``end``, where λ is inf.

    torchao calls this schedule BinaryRelax; the paper's own is ``GeometricGrowth``.

    Args:
        start: the last step with λ = 0.
        end: the first step of Phase II, after ``start``.

    Raises:
        ValueError: a step is not a whole number, or ``end`` is not after ``start``.

    Examples:
        >>> from binaryrelax import LinearMix
        >>> schedule = LinearMix(start=0, end=4)
        >>> strengths = [schedule(step) for step in range(4)]
        >>> [strength / (strength + 1) for strength in strengths], schedule(4)
        ([0.0, 0.25, 0.5, 0.75], inf)
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        start = require_whole("LinearMix", "start", self.start, low=0)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", require_whole("LinearMix", "end", self.end, low=start + 1))

    def __call__(self, step: int) -> float:
        if step >= self.end:
            return math.inf
        return max(step - self.start, 0) / (self.end - max(step, self.start))

    @classmethod
    def over(cls, num_steps: int, *, phase_one: float = 0.8) -> LinearMix:
        """The mix that begins with the training and ends after a share of its steps.

        Args:
            num_steps: of the whole training.
            phase_one: the share of the steps that are relaxed, from 0 to 1; the rest are Phase II.

        Examples:
            >>> from binaryrelax import LinearMix
            >>> LinearMix.over(100)
            LinearMix(start=0, end=80)
        """
        return cls(0, max(1, _share(f"{cls.__name__}.over", num_steps, phase_one)))


@dataclass(frozen=True)
class Hard(Schedule):
    """λ = inf from the first step: BinaryConnect (eq. 12).

    With ``Binary()`` this is BWN, with ``TernaryThreshold()`` it is TWN.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, BinaryRelax, Hard, select_weights
        >>> layer = torch.nn.Linear(8, 2)
        >>> sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
        >>> optimizer = BinaryRelax(sgd, select_weights(layer, Binary()), Hard())
        >>> optimizer.phase, layer.weight.unique().numel()  # binary before the first step
        (2, 2)
    """

    def __call__(self, step: int) -> float:
        return math.inf


def _share(call: str, num_steps: int, share: float) -> int:
    """That share of the steps, rounded down."""
    num_steps = require_whole(call, "num_steps", num_steps, low=1)
    holds = is_finite_number(share) and 0 <= share <= 1
    share = require_number(call, "phase_one", share, rule="between 0 and 1", holds=holds)
    return int(num_steps * share + 1e-9)  # 0.29 * 100 is below 29
