"""The best recipes for ResNet-20 on CIFAR-10 that the search has found; see docs/recipes.md.

Changes of -plus, chosen by the accuracy on 5,000 held-out training images; then trained on all.
BWN and TWN share all of them but λ: what BinaryRelax gains over BinaryConnect in this setting.
"""

from dataclasses import replace

from binaryrelax.lab.recipes.cifar10 import cifar10_resnet20
from binaryrelax.lab.recipes.recipe import TUNED, Recipe
from binaryrelax.lab.recipes.search import MORE_DECAY, SMALLER_STRENGTH, Change

CHOSEN: dict[str, Change] = {
    "bwn": MORE_DECAY,
    "binary": MORE_DECAY | SMALLER_STRENGTH,
    "twn": MORE_DECAY,
    "ternary": MORE_DECAY | SMALLER_STRENGTH,
}


def cifar10_resnet20_tuned(method: str) -> Recipe:
    """The recipe ``cifar10-resnet20-METHOD-tuned``; it starts from the float network of -plus."""
    changed = cifar10_resnet20(f"{method}-plus").with_settings(CHOSEN[method])
    return replace(changed, name=f"cifar10-resnet20-{method}{TUNED}")


def tuned_row() -> tuple[Recipe, ...]:
    """The float network that all start from, and the tuned ones."""
    return cifar10_resnet20("float-plus"), *map(cifar10_resnet20_tuned, CHOSEN)
