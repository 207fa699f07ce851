"""The study on language models: the runs that choose its learning rates (docs/evidence/plan.md).

The small network is trained on 33 million tokens here, 23 times as many as in ten minutes on a CPU.
"""

from collections.abc import Iterable

from binaryrelax_lab.recipes.language_recipe import LanguageRecipe
from binaryrelax_lab.recipes.lm import from_float, lm_base, lm_small
from binaryrelax_lab.recipes.name import LANGUAGE_METHOD_NAMES

RATES = ("0.0005", "0.001", "0.002", "0.004", "0.008")
SHARES = (5, 20, 100)  # percent of the steps of the float network; these have 100 epochs
SHARE_FOR_RATES = 20
MORE_TOKENS = {"batch_size": "64", "steps_per_epoch": "40"}
METHODS = tuple(method for method in LANGUAGE_METHOD_NAMES if method != "float")
DECISIVE = ("ste-binary", "ste-ternary", "relax-binary", "relax-ternary", "bitnet")


def small(method: str) -> LanguageRecipe:
    """The small network, from random weights."""
    return lm_small(method).with_settings(MORE_TOKENS)


def small_from_float(method: str) -> LanguageRecipe:
    """... and from its float network."""
    return from_float(lm_small(method)).with_settings(MORE_TOKENS)


def base_from_float(method: str) -> LanguageRecipe:
    """The large one from its float network."""
    return from_float(lm_base(method))


def with_rates(recipes: Iterable[LanguageRecipe]) -> list[LanguageRecipe]:
    """Each with every learning rate that is tried; its own has no name of its own."""
    return [
        recipe if float(rate) == recipe.lr else recipe.with_settings({"lr": rate})
        for recipe in recipes
        for rate in RATES
    ]


def _small_rates() -> list[LanguageRecipe]:
    scratch = [small(method) for method in ("float", *METHODS)]
    converted = [small_from_float(method).with_epochs(SHARE_FOR_RATES) for method in METHODS]
    return [small("float"), *with_rates([*scratch, *converted])]


def _base_rates() -> list[LanguageRecipe]:
    converted = [base_from_float(method).with_epochs(SHARE_FOR_RATES) for method in DECISIVE]
    return [lm_base("float"), *with_rates(converted)]


LANGUAGE_SEARCHES = {
    "lm-small-rates": tuple(dict.fromkeys(_small_rates())),
    "lm-base-rates": tuple(dict.fromkeys(_base_rates())),
}
