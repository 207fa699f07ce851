"""Every experiment as one function that returns a `Recipe`."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from binaryrelax_lab.recipes.cifar import (
    cifar10_resnet18 as cifar10_resnet18,
    cifar10_resnet20 as cifar10_resnet20,
    cifar10_resnet32 as cifar10_resnet32,
    cifar10_resnet34 as cifar10_resnet34,
    cifar10_vgg11 as cifar10_vgg11,
    cifar10_vgg16 as cifar10_vgg16,
    cifar100_resnet18 as cifar100_resnet18,
    cifar100_resnet34 as cifar100_resnet34,
    cifar100_resnet56 as cifar100_resnet56,
    cifar100_resnet110 as cifar100_resnet110,
    cifar100_vgg11 as cifar100_vgg11,
    cifar100_vgg16 as cifar100_vgg16,
)
from binaryrelax_lab.recipes.demo import (
    demo_binary as demo_binary,
    demo_bwn as demo_bwn,
    demo_float as demo_float,
    demo_ternary as demo_ternary,
    demo_twn as demo_twn,
)
from binaryrelax_lab.recipes.image_recipe import ImageRecipe as ImageRecipe
from binaryrelax_lab.recipes.imagenet import imagenet_resnet18 as imagenet_resnet18
from binaryrelax_lab.recipes.language_recipe import LanguageRecipe as LanguageRecipe
from binaryrelax_lab.recipes.learning_rate import (
    Cosine as Cosine,
    LearningRateSchedule as LearningRateSchedule,
    Steps as Steps,
    Triangle as Triangle,
)
from binaryrelax_lab.recipes.lm import (
    LANGUAGE_TABLES as LANGUAGE_TABLES,
    lm_base as lm_base,
    lm_small as lm_small,
)
from binaryrelax_lab.recipes.lm_study import LANGUAGE_SEARCHES as LANGUAGE_SEARCHES
from binaryrelax_lab.recipes.name import (
    LANGUAGE_METHOD_NAMES as LANGUAGE_METHOD_NAMES,
    METHOD_NAMES as METHOD_NAMES,
    RecipeName as RecipeName,
)
from binaryrelax_lab.recipes.recipe import Recipe as Recipe, plain as plain
from binaryrelax_lab.recipes.tables import (
    ALL_RECIPES as ALL_RECIPES,
    NETWORK_NAMES as NETWORK_NAMES,
    OUR_TABLES as OUR_TABLES,
    SEARCHES as SEARCHES,
    TABLES as TABLES,
    RecipeTable as RecipeTable,
)

LANGUAGE_RECIPES = tuple(recipe for table in LANGUAGE_TABLES.values() for recipe in table)


def find_recipe(name: str) -> Recipe:
    """The recipe of that name, which may tell of changes: NAME+key=value@epochs.

    Any number of them, made from left to right: NAME@12+lr=0.1+momentum=0.95@6.

    Args:
        name: of a recipe, with or without changes.

    Raises:
        ValueError: there is no such recipe; the message names close ones.

    Examples:
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> recipe = find_recipe("demo-ternary+lr=0.05@5")
        >>> recipe.lr, recipe.epochs, recipe.phase_two_epoch, recipe.quantizer
        (0.05, 5, 4, TernaryThreshold(ratio=0.7))
    """
    tries = (recipe for search in SEARCHES.values() for recipe in search)
    known: tuple[Recipe, ...] = (*ALL_RECIPES, *LANGUAGE_RECIPES, *tries)
    recipes = {recipe.name: recipe for recipe in known}
    wanted = RecipeName(name)
    try:
        recipe, changes = recipes[wanted.base], wanted.changes()
    except (KeyError, ValueError):
        raise ValueError(_no_such_recipe(name, recipes)) from None
    for change in changes:
        if isinstance(change, int):
            recipe = recipe.with_epochs(change)
        else:
            recipe = recipe.with_settings(change)
    return recipe


def _no_such_recipe(name: str, recipes: Iterable[str]) -> str:
    close = get_close_matches(name, recipes, n=5)
    close += [other for other in recipes if other.startswith(name) and other not in close]
    hint = f"did you mean {', '.join(close[:5])}? " if close else ""
    return f"no recipe is called {name!r}; {hint}`binaryrelax recipes` lists all"


def describe_recipes() -> list[dict[str, Any]]:
    """Every recipe as data that JSON can hold.

    Examples:
        >>> from binaryrelax_lab.recipes import describe_recipes
        >>> demo = [r for r in describe_recipes() if r["name"] == "demo-binary"]
        >>> demo[0]["network"], demo[0]["quantizer"], demo[0]["epochs"]
        ('small-conv', 'Binary()', 10)
    """
    return [plain(recipe) for recipe in (*ALL_RECIPES, *LANGUAGE_RECIPES)]
