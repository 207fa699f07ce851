"""Recipes that were tried on the way to better ones, judged by held-out training images.

5,000 of CIFAR-10's 50,000 training images are held out, for the float ancestor too; the test images
are not looked at. Shorter than what they are tried for: 100 epochs, all else stretched along.
"""

from binaryrelax.lab.recipes.cifar10 import cifar10_resnet20
from binaryrelax.lab.recipes.recipe import Recipe

Change = dict[str, str]

HELD_OUT = {"held_out": "5000"}
EPOCHS = 100
EXACT = {"quantizer": "Ternary()"}
OTHER_STRENGTHS: tuple[Change, ...] = (  # numbers are those of 300 epochs
    {"phase_two_epoch": "285"},
    {"growth": "1.01"},  # λ ends Phase I at 11 instead of 114
    {"initial_strength": "inf"},  # BinaryConnect
)
FIRST_ROUND: tuple[Change, ...] = (  # one change of -plus at a time
    {},
    {"weight_decay": "0"},
    {"weight_decay": "3e-5"},
    {"weight_decay": "3e-4"},
    {"weight_decay": "1e-3"},
    {"lr": "0.05"},
    {"lr": "0.2"},
    {"momentum": "0.95"},
    {"phase_two_epoch": "150"},
    *OTHER_STRENGTHS,
    {"growth": "1.03"},  # λ ends Phase I at 1,170
    {"starts_from": "none"},  # random weights instead of a trained float network
)
FIRST_ROUND_OF: dict[str, tuple[Change, ...]] = {
    "binary": ({"quantizer": "Binary(granularity=PerChannel())"},),
    "ternary": ({"quantizer": "TernaryThreshold(ratio=0.7, granularity=PerChannel())"}, EXACT),
}
# More weight decay was the one large gain of the first tries; the rest is tried again on top of it.
MORE_DECAY = {"weight_decay": "3e-4"}
SECOND_ROUND: tuple[Change, ...] = (*OTHER_STRENGTHS, {"momentum": "0.95"}, {"starts_from": "none"})
SECOND_ROUND_OF: dict[str, tuple[Change, ...]] = {"binary": (), "ternary": (EXACT,)}


def resnet20_search() -> tuple[Recipe, ...]:
    """Every try, after the float network that they start from."""
    start = cifar10_resnet20("float-plus").with_settings(HELD_OUT).with_epochs(EPOCHS)
    tried = [
        cifar10_resnet20(f"{method}-plus").with_settings(change | HELD_OUT).with_epochs(EPOCHS)
        for method in FIRST_ROUND_OF
        for change in changes_of(method)
    ]
    return start, *tried


def changes_of(method: str) -> list[Change]:
    """What was changed of -plus, round by round."""
    second = (*SECOND_ROUND, *SECOND_ROUND_OF[method])
    return [*FIRST_ROUND, *FIRST_ROUND_OF[method], *(MORE_DECAY | change for change in second)]


SEARCHES = {"cifar10-search": resnet20_search()}
