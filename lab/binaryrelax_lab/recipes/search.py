"""Recipes that were tried on the way to better ones, and the best for ResNet-20 on CIFAR-10.

5,000 of CIFAR-10's 50,000 training images are held out, for the float ancestor too; the test images
are not looked at. Shorter than what they are tried for: 100 epochs, all else in proportion. What
came out best (docs/evidence/recipes.md) was then trained on all images, and is called ``-tuned``.
BWN and TWN share all of its changes but λ: what BinaryRelax gains over BinaryConnect in this
setting.
"""

from dataclasses import dataclass, replace

from binaryrelax_lab.recipes.cifar import cifar10_resnet20
from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.name import PLUS, TUNED, RecipeName

Change = dict[str, str]

HELD_OUT = {"held_out": "5000"}
EPOCHS = 100
METHODS = ("binary", "ternary")


@dataclass(frozen=True)
class Round:
    """Changes of -plus that were tried one at a time.

    Args:
        base: a change that all of them have.
        changes: what was tried with every method; numbers are those of 300 epochs.
        only_for: what was tried with one method only.
    """

    base: Change
    changes: tuple[Change, ...]
    only_for: dict[str, tuple[Change, ...]]

    def of(self, method: str) -> list[Change]:
        """All changes that were tried with a method, the base first."""
        return [self.base | change for change in ({}, *self.changes, *self.only_for[method])]


BINARY_CONNECT = {"initial_strength": "inf"}
SMALLER_STRENGTH = {"growth": "1.01"}  # λ ends Phase I at 11 instead of 114
LARGER_STRENGTH = {"growth": "1.03"}  # ... at 1,170
EXACT = {"quantizer": "Ternary()"}
FROM_RANDOM_WEIGHTS = {"starts_from": "none"}
LATE_PHASE_TWO = {"phase_two_epoch": "285"}
MORE_DECAY = {"weight_decay": "3e-4"}
PAPER_MOMENTUM = {"momentum": "0.95"}
ROUNDS = (
    Round(
        base={},
        changes=(
            {"weight_decay": "0"},
            {"weight_decay": "3e-5"},
            MORE_DECAY,
            {"weight_decay": "1e-3"},
            {"lr": "0.05"},
            {"lr": "0.2"},
            PAPER_MOMENTUM,
            {"phase_two_epoch": "150"},
            LATE_PHASE_TWO,
            SMALLER_STRENGTH,
            BINARY_CONNECT,
            LARGER_STRENGTH,
            FROM_RANDOM_WEIGHTS,
        ),
        only_for={
            "binary": ({"quantizer": "Binary(granularity=PerChannel())"},),
            "ternary": (
                {"quantizer": "TernaryThreshold(ratio=0.7, granularity=PerChannel())"},
                EXACT,
            ),
        },
    ),
    Round(  # more decay was the largest gain of the first tries: the rest on top of it
        base=MORE_DECAY,
        changes=(
            LATE_PHASE_TWO,
            SMALLER_STRENGTH,
            BINARY_CONNECT,
            PAPER_MOMENTUM,
            FROM_RANDOM_WEIGHTS,
        ),
        only_for={"binary": (), "ternary": (EXACT,)},
    ),
)


def tried(method: str, change: Change) -> ImageRecipe:
    """The recipe of a try: -plus with a change, shortened, with images held out."""
    plus = cifar10_resnet20(method + PLUS)
    return plus.with_settings(change | HELD_OUT).with_epochs(EPOCHS)


def resnet20_search() -> tuple[ImageRecipe, ...]:
    """Every try once, after the float network that they start from."""
    everything = [
        tried("float", {}),
        *(
            tried(method, change)
            for method in METHODS
            for one in ROUNDS
            for change in one.of(method)
        ),
    ]
    return tuple({recipe.name: recipe for recipe in everything}.values())


CHOSEN: dict[str, Change] = {
    "bwn": MORE_DECAY,
    "binary": MORE_DECAY | SMALLER_STRENGTH,
    "twn": MORE_DECAY,
    "ternary": MORE_DECAY | SMALLER_STRENGTH,
}


def cifar10_resnet20_tuned(method: str) -> ImageRecipe:
    """The recipe ``cifar10-resnet20-METHOD-tuned``; it starts from the float network of -plus."""
    changed = cifar10_resnet20(method + PLUS).with_settings(CHOSEN[method])
    return replace(changed, name=RecipeName(f"cifar10-resnet20-{method}{TUNED}"))


def tuned_row() -> tuple[ImageRecipe, ...]:
    """The float network that all start from, and the tuned ones."""
    return cifar10_resnet20("float" + PLUS), *map(cifar10_resnet20_tuned, CHOSEN)


def relaxed_at_tuned_decay(method: str, strength: Change) -> ImageRecipe:
    """BinaryRelax at the decay of ``-tuned``, from the float networks of its BWN and TWN.

    With `SMALLER_STRENGTH` it is ``-tuned`` by another name: the runs that bear that name started
    from other float networks.
    """
    return cifar10_resnet20(method + PLUS).with_settings(MORE_DECAY | strength)


def tuned_strengths_row() -> tuple[ImageRecipe, ...]:
    """BinaryRelax at the tuned decay, with the paper's λ (114) and the tuned one (11)."""
    changed = (relaxed_at_tuned_decay(m, s) for s in ({}, SMALLER_STRENGTH) for m in METHODS)
    return cifar10_resnet20("float" + PLUS), *changed
