"""What a training run is, in numbers."""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Self, get_type_hints

from binaryrelax import GeometricGrowth, Hard, Quantizer, Schedule
from binaryrelax_lab.recipes.learning_rate import LearningRateSchedule
from binaryrelax_lab.recipes.name import LABELS, RecipeName
from binaryrelax_lab.recipes.settings import parsed_settings

FIXED = ("name", "dataset", "method", "strength_growth", "paper_accuracy", "paper_accuracy_top5")
ONLY_IF_SET = "only if set"  # results of before such a field was there stay what they are
STRENGTH_SETTINGS = ("quantizer", "initial_strength", "growth", "growth_every_epochs")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a training run but its seed; a subclass adds what its data need.

    The method is not a switch: without a quantizer a run is an ordinary float training, an
    `initial_strength` of infinity makes it BinaryConnect (BWN, TWN), and a finite one BinaryRelax.

    Args:
        method: the column of the tables it belongs to, one of `METHOD_NAMES`.
        lr_schedule: how the learning rate falls from `lr`.
        initial_strength: λ of the first step; infinity means hard from the first step on.
        growth: λ is multiplied by this ...
        growth_every_epochs: ... each time this many epochs (or parts of one) have passed.
        phase_two_epoch: the first epoch with λ = ∞. Float, BWN and TWN have it too: their best
            accuracy is taken over the same epochs.
        keep_float: names of the layers whose weights stay float.
        starts_from: the recipe whose last epoch this one begins with.
        paper_accuracy: what the paper reports, in percent; top-1.
        paper_accuracy_top5: what the paper reports beside it on ImageNet.

    Examples:
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> recipe = find_recipe("demo-binary")
        >>> recipe.method, recipe.quantizer, recipe.starts_from
        ('binary', Binary(), 'demo-float')
        >>> schedule = recipe.schedule(steps_per_epoch=78)
        >>> [round(schedule(step), 6) for step in (0, 8 * 78 - 1)], schedule(8 * 78)
        ([1.0, 150.0], inf)
    """

    UNIT: ClassVar[str]  # of what it is trained on, for speeds

    name: RecipeName
    dataset: str
    network: str
    method: str
    quantizer: Quantizer | None = None
    epochs: int
    batch_size: int
    lr: float
    lr_schedule: LearningRateSchedule
    weight_decay: float
    initial_strength: float | None = None
    growth: float | None = None
    growth_every_epochs: float | None = None
    phase_two_epoch: int
    keep_float: tuple[str, ...] = ("fc",)
    starts_from: RecipeName | None = None
    paper_accuracy: float | None = None
    paper_accuracy_top5: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", RecipeName(self.name))  # may be given as plain text
        if self.starts_from is not None:
            object.__setattr__(self, "starts_from", RecipeName(self.starts_from))
        if self.epochs < 1 or not 0 <= self.phase_two_epoch <= self.epochs:
            raise ValueError(
                f"recipe {self.name}: epochs={self.epochs}, phase_two_epoch="
                f"{self.phase_two_epoch}; Phase II must begin within the epochs, at least one "
                "(another length moves it along)"
            )
        growing = self.growth is not None and self.growth_every_epochs is not None
        if self.grows_geometrically and not growing:
            raise ValueError(
                f"recipe {self.name}: initial_strength={self.initial_strength} is finite, so "
                "growth and growth_every_epochs must be given"
            )

    @property
    def is_relaxed(self) -> bool:
        """Whether λ grows: BinaryRelax, neither float nor hard from the start."""
        return self.quantizer is not None and self.initial_strength != math.inf

    @property
    def label(self) -> str:
        """The method as people call it."""
        return LABELS[self.method]

    @property
    def grows_geometrically(self) -> bool:
        """Whether λ is multiplied again and again, as in the paper."""
        return self.is_relaxed

    @property
    def units_per_example(self) -> int:
        """How many of `UNIT` one row of a batch is."""
        return 1

    @property
    def num_growths(self) -> int:
        """How often λ is multiplied by `growth` before Phase II, without rounding to steps."""
        _, every = self._growth_and_interval
        return max(0, math.ceil(self.phase_two_epoch / every) - 1)

    def schedule(self, steps_per_epoch: int) -> Schedule:
        """λ as a function of the step, for the optimizer."""
        if not self.grows_geometrically or self.initial_strength is None:
            return Hard()
        growth, every = self._growth_and_interval
        return GeometricGrowth(
            initial=self.initial_strength,
            growth=growth,
            # Half of an odd number of steps is rounded up: ImageNet's 5005 make 2503, so that each
            # growth comes half a step later than the one before, 55 steps late after 55 epochs.
            # Rounded down, λ would grow once too often before Phase II.
            every=math.ceil(every * steps_per_epoch),
            harden_at=self.phase_two_epoch * steps_per_epoch,
        )

    def with_epochs(self, epochs: int) -> Self:
        """The recipe shortened or lengthened to `epochs`, called NAME@epochs.

        Milestones and Phase II move along, and the growth changes so that λ ends Phase I where it
        did before. A single epoch leaves no room for Phase I. The paper's figures are not claimed.
        """
        if epochs < 1:
            raise ValueError(f"epochs={epochs}: there must be at least one")
        if epochs == self.epochs:
            return self
        ratio = epochs / self.epochs
        moved = replace(
            self._without_claim(),
            name=self.name.with_epochs(epochs),
            epochs=epochs,
            phase_two_epoch=min(round(self.phase_two_epoch * ratio), epochs - 1),
            lr_schedule=self.lr_schedule.stretched(ratio),
            starts_from=self.starts_from and self._start_of_length(epochs),
        )
        return moved._growing_as_far_as(self) if self.grows_geometrically else moved

    def _start_of_length(self, epochs: int) -> RecipeName:
        """What a run of so many epochs starts from: a float network of as many."""
        assert self.starts_from is not None
        return self.starts_from.with_epochs(epochs)

    def with_settings(self, settings: Mapping[str, str]) -> Self:
        """The recipe with some numbers changed, called NAME+key=value.

        Values are text, as they come from a command line: numbers, true or false, names separated
        by commas, a quantizer as Python writes it, a learning-rate schedule as ``cosine`` or
        ``steps:120,220``. It still starts from the same float network, whose settings stay
        (``starts_from=none``: from random weights). The paper's figures are not claimed. A name
        tells of no setting twice, and of none without effect.
        """
        if not settings:
            return self
        kinds, names = get_type_hints(type(self)), [part.name for part in fields(self)]
        choices = {name: kinds[name] for name in names if name not in FIXED}
        values = parsed_settings(settings, choices)
        self._refuse_settings_without_effect(values)
        values["starts_from"] = self._start_after(values)
        try:
            name = self.name.with_settings(settings)
            return replace(self._without_claim(), name=name, **values)
        except ValueError as error:
            given = ", ".join(f"{key}={value}" for key, value in settings.items())
            raise ValueError(f"{given}: {error}") from error

    def _start_after(self, values: Mapping[str, Any]) -> RecipeName | None:
        """The network to start from with these settings."""
        start: str | None = values.get("starts_from", self.starts_from)
        return None if start is None else RecipeName(start)

    def _refuse_settings_without_effect(self, values: Mapping[str, Any]) -> None:
        """A name must not tell of a setting that the run never looks at."""
        for key in values.keys() & self.name.settings:
            raise ValueError(f"{key}: {self.name} sets it already; take the name without it")
        others = {key: value for key, value in values.items() if key != "starts_from"}
        start = self._start_after(others)
        if "starts_from" in values and self._start_after(values) == start:
            raise ValueError(
                f"starts_from: {self.name} starts from {start or 'random weights'} anyway"
            )
        for key in STRENGTH_SETTINGS:
            if key in values and self.quantizer is None:
                raise ValueError(
                    f"{key}: {self.name} is a float network; take a recipe with a quantizer"
                )
        is_hard = values.get("initial_strength", self.initial_strength) == math.inf
        for key in ("growth", "growth_every_epochs"):
            if key in values.keys() | self.name.settings and is_hard:
                raise ValueError(
                    f"{key}: λ = ∞ from the first step cannot grow, so {key} has no effect "
                    f"on {self.name}; take a BinaryRelax recipe, or a finite initial_strength"
                )

    def _without_claim(self) -> Self:
        return replace(self, paper_accuracy=None, paper_accuracy_top5=None)

    def _growing_as_far_as(self, other: Self) -> Self:
        """The recipe with the growth that multiplies λ as much in Phase I as `other` does."""
        growth, every = self._growth_and_interval
        moved = replace(self, growth_every_epochs=min(every, max(self.phase_two_epoch, 1) / 2))
        exponent = other.num_growths / max(1, moved.num_growths)
        return replace(moved, growth=growth**exponent)

    @property
    def _growth_and_interval(self) -> tuple[float, float]:
        """Of a recipe whose λ grows, which has both."""
        assert self.growth is not None and self.growth_every_epochs is not None, self.name
        return self.growth, self.growth_every_epochs


def plain(value: Any) -> Any:
    """A recipe, or a part of one, as data that JSON can hold.

    Infinity becomes the string "inf" (JSON has no number for it), a quantizer its Python
    expression, a learning-rate schedule its fields together with its kind.
    """
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, RecipeName):
        return str(value)
    if isinstance(value, Quantizer):
        return repr(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        content = {part.name: plain(getattr(value, part.name)) for part in _shown_fields(value)}
        is_schedule = isinstance(value, LearningRateSchedule)
        return {"kind": type(value).__name__.lower(), **content} if is_schedule else content
    return value


def _shown_fields(value: Any) -> list[Field[Any]]:
    return [
        part
        for part in fields(value)
        if ONLY_IF_SET not in part.metadata or getattr(value, part.name) != part.default
    ]
