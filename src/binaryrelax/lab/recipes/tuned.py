"""The best recipes for ResNet-20 on CIFAR-10 that the search has found; see docs/recipes.md.

Chosen by the accuracy on 5,000 held-out training images, then trained on all of them.
"""

from dataclasses import replace

from binaryrelax.lab.recipes.cifar10 import cifar10_resnet20
from binaryrelax.lab.recipes.recipe import TUNED, Recipe
from binaryrelax.lab.recipes.search import Change

GENTLY = {"weight_decay": "3e-4", "growth": "1.01"}  # λ ends Phase I at 11
CHOSEN: dict[str, Change] = {"binary": GENTLY, "ternary": GENTLY}  # changes of -plus


def cifar10_resnet20_tuned(method: str) -> Recipe:
    """The recipe ``cifar10-resnet20-METHOD-tuned``; it starts from the float network of -plus."""
    changed = cifar10_resnet20(f"{method}-plus").with_settings(CHOSEN[method])
    return replace(changed, name=f"cifar10-resnet20-{method}{TUNED}")


def tuned_row() -> tuple[Recipe, ...]:
    """The float network, and what was tuned."""
    return cifar10_resnet20("float-plus"), *map(cifar10_resnet20_tuned, CHOSEN)
