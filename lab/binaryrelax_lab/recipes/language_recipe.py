"""What a training run on text is, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from binaryrelax import GeometricGrowth, Hard, LinearMix, Schedule
from binaryrelax_lab.recipes.name import RecipeName
from binaryrelax_lab.recipes.recipe import Recipe

SHARED_WITH_START = ("batch_size", "context", "vocabulary", "steps_per_epoch")
GROWTHS = ("geometric", "linear", "parq")
STRENGTH_OF_GEOMETRIC = ("initial_strength", "growth", "growth_every_epochs")


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(Recipe):
    """Everything that decides a training run on text but its seed and the text. See `Recipe`.

    AdamW moves the weights. An epoch is a stretch of `steps_per_epoch` steps, after which the
    network is measured, be the text longer or shorter. Embedding and head stay float.

    Args:
        batch_size: windows of the text in a step.
        context: tokens of a window.
        vocabulary: different tokens.
        momentum: AdamW's first, of the gradient.
        second_momentum: ... and of its square.
        weight_decay: on the matrices that other methods quantize.
        clip: the norm that gradients are cut back to.
        strength_growth: how λ grows: "geometric" as in the paper, "linear" as a linear mix of float
            and quantized weights; "parq" is torchao's PARQ in place of BinaryRelax, which knows no
            λ: its maps grow steep from the first step to the beginning of Phase II.
    """

    UNIT = "tokens"

    context: int
    vocabulary: int
    steps_per_epoch: int
    momentum: float = 0.9
    second_momentum: float = 0.95
    clip: float = 1.0
    strength_growth: str = "geometric"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strength_growth not in GROWTHS:
            raise ValueError(
                f"strength_growth={self.strength_growth}: it must be one of {', '.join(GROWTHS)}"
            )

    @property
    def units_per_example(self) -> int:
        return self.context

    @property
    def grows_geometrically(self) -> bool:
        return self.is_relaxed and self.strength_growth == "geometric"

    @property
    def is_parq(self) -> bool:
        """Whether PARQ takes the place of BinaryRelax."""
        return self.quantizer is not None and self.strength_growth == "parq"

    def _start_after(self, values: Mapping[str, Any]) -> RecipeName | None:
        """It is trained on as many of the same tokens."""
        start = super()._start_after(values)
        shared = {key: str(value) for key, value in values.items() if key in SHARED_WITH_START}
        return start and start.with_settings(shared)

    def _start_of_length(self, epochs: int) -> RecipeName:
        """A conversion may be as short as it likes: its float network stays whole."""
        assert self.starts_from is not None
        return self.starts_from

    def _refuse_settings_without_effect(self, values: Mapping[str, Any]) -> None:
        super()._refuse_settings_without_effect(values)
        for key in STRENGTH_OF_GEOMETRIC:
            if key in values and self.strength_growth != "geometric":
                raise ValueError(
                    f"{key}: with strength_growth={self.strength_growth} it has no effect on "
                    f"{self.name}; take a relax recipe"
                )

    def schedule(self, steps_per_epoch: int) -> Schedule:
        if self.is_parq:
            raise ValueError(f"{self.name}: PARQ knows no λ")
        hard_from = self.phase_two_epoch * steps_per_epoch
        if self.is_relaxed and self.strength_growth == "linear":
            return LinearMix(start=0, end=hard_from) if hard_from else Hard()
        if not self.grows_geometrically or hard_from < 2:
            return super().schedule(steps_per_epoch)
        growth, interval = self._growth_and_interval
        assert self.initial_strength is not None, self.name
        # An epoch has few steps, so that a rounded interval would move the last λ by far.
        return GeometricGrowth.reaching(
            self.initial_strength * growth**self.num_growths,
            phase_one_steps=hard_from,
            every=min(max(1, round(interval * steps_per_epoch)), hard_from - 1),
            initial=self.initial_strength,
        )
