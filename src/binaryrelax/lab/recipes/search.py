"""Recipes that were tried on the way to better ones, judged by held-out training images.

5,000 of CIFAR-10's 50,000 training images are held out, for the float ancestor too; the test images
are not looked at. Shorter than what they are tried for: 100 epochs, all else stretched along.
"""

from binaryrelax.lab.recipes.cifar10 import cifar10_resnet20
from binaryrelax.lab.recipes.recipe import Recipe

HELD_OUT = {"held_out": "5000"}
EPOCHS = 100
COMMON: tuple[dict[str, str], ...] = (  # numbers are those of 300 epochs
    {},
    {"weight_decay": "0"},
    {"weight_decay": "3e-5"},
    {"weight_decay": "3e-4"},
    {"lr": "0.05"},
    {"lr": "0.2"},
    {"momentum": "0.95"},
    {"phase_two_epoch": "150"},
    {"phase_two_epoch": "285"},
    {"growth": "1.01"},  # λ ends Phase I at 11 instead of 114
    {"growth": "1.03"},  # ... at 1,170
    {"initial_strength": "inf"},  # BinaryConnect
)
CHANGES: dict[str, tuple[dict[str, str], ...]] = {
    "binary": (*COMMON, {"quantizer": "Binary(granularity=PerChannel())"}),
    "ternary": (
        *COMMON,
        {"quantizer": "TernaryThreshold(ratio=0.7, granularity=PerChannel())"},
        {"quantizer": "Ternary()"},
    ),
}


def resnet20_search() -> tuple[Recipe, ...]:
    """Every change by itself, after the float network that all start from."""
    start = cifar10_resnet20("float-plus").with_settings(HELD_OUT).with_epochs(EPOCHS)
    tried = [
        cifar10_resnet20(f"{method}-plus").with_settings(change | HELD_OUT).with_epochs(EPOCHS)
        for method, changes in CHANGES.items()
        for change in changes
    ]
    return start, *tried


SEARCHES = {"cifar10-search": resnet20_search()}
