"""Every experiment as one function that returns a `Recipe`."""

from binaryrelax.lab.recipes.demo import (
    demo_binary as demo_binary,
    demo_bwn as demo_bwn,
    demo_float as demo_float,
    demo_ternary as demo_ternary,
    demo_twn as demo_twn,
)
from binaryrelax.lab.recipes.learning_rate import (
    Cosine as Cosine,
    LearningRateSchedule as LearningRateSchedule,
    Steps as Steps,
)
from binaryrelax.lab.recipes.recipe import (
    METHOD_NAMES as METHOD_NAMES,
    Recipe as Recipe,
    plain as plain,
)

ALL_RECIPES = (demo_float, demo_bwn, demo_binary, demo_twn, demo_ternary)


def find_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    recipes = {recipe.name: recipe for recipe in (make() for make in ALL_RECIPES)}
    if name not in recipes:
        raise ValueError(f"no recipe is called {name!r}; there are: {', '.join(recipes)}")
    return recipes[name]
