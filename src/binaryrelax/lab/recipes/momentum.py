"""The momentum that the notebook of the paper's authors has, 0.9, where the paper says 0.95.

Asked of VGG-11 because with 0.95 all of its quantized networks come out below the paper, and of the
demo's network because eight seeds cost minutes there (docs/findings.md).
"""

from collections.abc import Iterable

from binaryrelax.lab.recipes.cifar10 import cifar10_vgg11
from binaryrelax.lab.recipes.demo_questions import demo_paper_row
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.recipes.recipe import Recipe

NOTEBOOK_MOMENTUM = {"momentum": "0.9"}


def vgg11_momentum() -> tuple[Recipe, ...]:
    """The row of Table 1 with it."""
    return _with_momentum(map(cifar10_vgg11, PAPER_METHODS))


def demo_momentum() -> tuple[Recipe, ...]:
    """The demo's network under the paper's schedule with it."""
    return _with_momentum(demo_paper_row())


def _with_momentum(row: Iterable[Recipe]) -> tuple[Recipe, ...]:
    """The quantized ones; all start from the float network of the paper's momentum."""
    start, *quantized = row
    return start, *(recipe.with_settings(NOTEBOOK_MOMENTUM) for recipe in quantized)
