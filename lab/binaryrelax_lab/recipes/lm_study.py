"""The study on language models: the runs that choose its learning rates (docs/evidence/plan.md).

The small network is trained on 33 million tokens here, 20 times as many as in ten minutes on a CPU.
"""

from collections.abc import Callable, Iterable

from binaryrelax_lab.recipes.language_recipe import LanguageRecipe
from binaryrelax_lab.recipes.lm import from_float, lm_base, lm_small
from binaryrelax_lab.recipes.name import LANGUAGE_METHOD_NAMES

RATES = ("0.0005", "0.001", "0.002", "0.004", "0.008")
SHARE_FOR_RATES = 20  # percent of the steps of the float network, which has 100 epochs
MORE_TOKENS = {"batch_size": "64", "steps_per_epoch": "40"}
METHODS = tuple(LANGUAGE_METHOD_NAMES)


def small(method: str) -> LanguageRecipe:
    """The small network, from random weights."""
    return lm_small(method).with_settings(MORE_TOKENS)


def small_from_float(method: str) -> LanguageRecipe:
    """... and from its float network."""
    return from_float(lm_small(method)).with_settings(MORE_TOKENS)


def base_from_float(method: str) -> LanguageRecipe:
    """The large one from its float network."""
    return from_float(lm_base(method))


def _with_rates(recipes: Iterable[LanguageRecipe]) -> list[LanguageRecipe]:
    """Each with every learning rate that is tried; its own has no name of its own."""
    return [
        recipe if float(rate) == recipe.lr else recipe.with_settings({"lr": rate})
        for recipe in recipes
        for rate in RATES
    ]


def _of_conversions(
    start: LanguageRecipe, recipe_of: Callable[[str], LanguageRecipe]
) -> tuple[LanguageRecipe, ...]:
    """After the float network that they start from; its rate is the best of an earlier search."""
    short = [recipe_of(method).with_epochs(SHARE_FOR_RATES) for method in METHODS]
    return start, *_with_rates(short)


LANGUAGE_SEARCHES = {  # in this order: the chosen rates of float networks go into lm_small, lm_base
    "lm-small-rates": tuple(_with_rates(map(small, METHODS))),
    "lm-base-rates": tuple(_with_rates([lm_base()])),
    "lm-small-conversion-rates": _of_conversions(small("float"), small_from_float),
    "lm-base-conversion-rates": _of_conversions(lm_base(), base_from_float),
}
