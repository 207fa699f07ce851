"""The best recipes for ResNet-20 on CIFAR-10 that the search has found; see docs/recipes.md.

Changes of -plus, chosen by the accuracy on 5,000 held-out training images; then trained on all.
"""

from dataclasses import replace

from binaryrelax.lab.recipes.cifar10 import cifar10_resnet20
from binaryrelax.lab.recipes.recipe import TUNED, Recipe
from binaryrelax.lab.recipes.search import METHODS, MORE_DECAY, SMALLER_STRENGTH, Change

CHOSEN: dict[str, Change] = {method: MORE_DECAY | SMALLER_STRENGTH for method in METHODS}


def cifar10_resnet20_tuned(method: str) -> Recipe:
    """The recipe ``cifar10-resnet20-METHOD-tuned``; it starts from the float network of -plus."""
    changed = cifar10_resnet20(f"{method}-plus").with_settings(CHOSEN[method])
    return replace(changed, name=f"cifar10-resnet20-{method}{TUNED}")


def tuned_row() -> tuple[Recipe, ...]:
    """The float network, and what was tuned."""
    return cifar10_resnet20("float-plus"), *map(cifar10_resnet20_tuned, CHOSEN)
