"""The paper's tables as recipes, in its order, and our own beside them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from binaryrelax_lab.recipes.cifar import CIFAR10_ROWS, CIFAR100_ROWS
from binaryrelax_lab.recipes.demo import (
    demo_binary,
    demo_bwn,
    demo_float,
    demo_paper_row,
    demo_questions,
    demo_ternary,
    demo_twn,
)
from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.imagenet import IMAGENET_ROWS
from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.recipes.name import METHOD_NAMES, PLUS
from binaryrelax_lab.recipes.notebook import demo_momentum, vgg11_momentum, vgg11_notebook_row
from binaryrelax_lab.recipes.search import resnet20_search, tuned_row, tuned_strengths_row

EXACT_METHODS = ("float", "twn", "ternary", "ternary-exact")
NETWORK_NAMES = {
    "vgg11": "VGG-11",
    "vgg16": "VGG-16",
    "resnet20": "ResNet-20",
    "resnet32": "ResNet-32",
    "resnet56": "ResNet-56",
    "resnet110": "ResNet-110",
    "resnet18": "ResNet-18",
    "resnet34": "ResNet-34",
    "resnet18-imagenet": "ResNet-18",
    "small-conv": "Small conv net",
}


@dataclass(frozen=True)
class RecipeTable:
    """A table of networks (down) by methods (across); each row begins with its float network."""

    title: str
    rows: tuple[tuple[ImageRecipe, ...], ...]

    @property
    def recipes(self) -> tuple[ImageRecipe, ...]:
        """All cells, row by row."""
        return tuple(recipe for row in self.rows for recipe in row)

    @property
    def methods(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(recipe.method for recipe in self.rows[0])


def _rows(
    functions: Iterable[Callable[[str], ImageRecipe]], methods: Iterable[str], suffix: str = ""
) -> tuple[tuple[ImageRecipe, ...], ...]:
    variants = [method + suffix for method in methods]
    return tuple(tuple(row(variant) for variant in variants) for row in functions)


TABLES = {
    "cifar10": RecipeTable("Table 1: CIFAR-10", _rows(CIFAR10_ROWS, PAPER_METHODS)),
    "cifar100": RecipeTable("Table 2: CIFAR-100", _rows(CIFAR100_ROWS, PAPER_METHODS)),
    "imagenet": RecipeTable("Table 3: ImageNet", _rows(IMAGENET_ROWS, PAPER_METHODS)),
}
OUR_TABLES = {
    "cifar10-exact": RecipeTable("CIFAR-10, exact ternary", _rows(CIFAR10_ROWS, EXACT_METHODS)),
    "cifar10-plus": RecipeTable("CIFAR-10, plus", _rows(CIFAR10_ROWS, METHOD_NAMES, PLUS)),
    "cifar10-tuned": RecipeTable("CIFAR-10, tuned", (tuned_row(),)),
    "cifar100-exact": RecipeTable("CIFAR-100, exact ternary", _rows(CIFAR100_ROWS, EXACT_METHODS)),
    "cifar100-plus": RecipeTable("CIFAR-100, plus", _rows(CIFAR100_ROWS, METHOD_NAMES, PLUS)),
    "demo": RecipeTable(
        "Demo", ((demo_float(), demo_bwn(), demo_binary(), demo_twn(), demo_ternary()),)
    ),
}
SEARCHES = {  # asked beside the tables, and not listed with them
    "cifar10-search": resnet20_search(),
    "cifar10-momentum": vgg11_momentum(),
    "cifar10-tuned-strength": tuned_strengths_row(),
    "cifar10-notebook": vgg11_notebook_row(),
    "demo-questions": demo_questions(),
    "demo-paper": demo_paper_row(),
    "demo-momentum": demo_momentum(),
}
_EVERY_CELL = (cell for table in (TABLES | OUR_TABLES).values() for cell in table.recipes)
ALL_RECIPES = tuple({recipe.name: recipe for recipe in _EVERY_CELL}.values())
