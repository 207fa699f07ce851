"""Language models: a small one for two CPU cores, and one of 28 million weights for a GPU.

``lm-small-relax-ternary`` begins with random weights, ``lm-small-relax-ternary-from-float`` with a
trained float network, which it converts. How their settings were chosen: docs/evidence/plan.md.
"""

import math
from dataclasses import replace
from typing import Any

from binaryrelax import Binary, Quantizer, Ternary, TernaryAbsMean
from binaryrelax_lab.recipes.language_recipe import LanguageRecipe
from binaryrelax_lab.recipes.learning_rate import Triangle
from binaryrelax_lab.recipes.name import FROM_FLOAT, LANGUAGE_METHOD_NAMES, RecipeName

# λ at both ends of Phase I; the paper ends between 100 and 200.
INITIAL_STRENGTH, FINAL_STRENGTH = 1.0, 150.0
GROWTHS_PER_EPOCH = 5
_KINDS: dict[str, tuple[Quantizer | None, float | None, str]] = {  # and λ at first, and its growth
    "float": (None, None, "geometric"),
    "bitnet": (TernaryAbsMean(), math.inf, "geometric"),
    "ste-binary": (Binary(), math.inf, "geometric"),
    "ste-ternary": (Ternary(), math.inf, "geometric"),
    "parq-binary": (Binary(), 0.0, "parq"),  # torchao's steps, with the sets Q of the others
    "parq-ternary": (Ternary(), 0.0, "parq"),
    "linear-binary": (Binary(), 0.0, "linear"),
    "linear-ternary": (Ternary(), 0.0, "linear"),
    "relax-binary": (Binary(), INITIAL_STRENGTH, "geometric"),
    "relax-ternary": (Ternary(), INITIAL_STRENGTH, "geometric"),
}


def lm_small(method: str = "float") -> LanguageRecipe:
    """7 million weights, of which 6 million are quantized: ten minutes on two CPU cores.

    The vocabulary is small, as the run is short: rare tokens would hardly be met.
    """
    start = _float_recipe(
        "small", steps_per_epoch=8, batch_size=16, context=128, vocabulary=1024, lr=5e-3
    )
    return _by_method(start, method)


def lm_base(method: str = "float") -> LanguageRecipe:
    """28 million weights, of which 24 million are quantized: for a GPU."""
    start = _float_recipe(
        "base", steps_per_epoch=40, batch_size=64, context=512, vocabulary=8192, lr=1e-3
    )
    return _by_method(start, method)


def _float_recipe(size: str, **numbers: Any) -> LanguageRecipe:
    """The float network; the others are trained by the same numbers."""
    return LanguageRecipe(
        name=RecipeName(f"lm-{size}-float"),
        dataset="text",
        network=f"llama-{size}",
        method="float",
        epochs=100,
        phase_two_epoch=80,
        lr_schedule=Triangle(),
        weight_decay=0.1,
        keep_float=(),
        **numbers,
    )


def from_float(recipe: LanguageRecipe) -> LanguageRecipe:
    """The same, but from the trained float network, ``...-from-float``."""
    start = recipe.name.with_method("float")
    return replace(recipe, name=RecipeName(recipe.name + FROM_FLOAT), starts_from=start)


def _by_method(start: LanguageRecipe, method: str) -> LanguageRecipe:
    """The recipe that trains the network of the float recipe `start` by another method."""
    if method not in _KINDS:
        raise ValueError(f"method={method!r}: it must be one of {', '.join(LANGUAGE_METHOD_NAMES)}")
    quantizer, initial_strength, way = _KINDS[method]
    num_growths = GROWTHS_PER_EPOCH * start.phase_two_epoch - 1
    is_geometric = initial_strength == INITIAL_STRENGTH
    return replace(
        start,
        name=start.name.with_method(method),
        method=method,
        quantizer=quantizer,
        initial_strength=initial_strength,
        strength_growth=way,
        growth=FINAL_STRENGTH ** (1 / num_growths) if is_geometric else None,
        growth_every_epochs=1 / GROWTHS_PER_EPOCH if is_geometric else None,
    )


def _rows(network: LanguageRecipe) -> tuple[LanguageRecipe, ...]:
    """From random weights, then from a float network, which is trained on as a control, too."""
    scratch = tuple(_by_method(network, method) for method in _KINDS)
    return *scratch, *map(from_float, scratch)


LANGUAGE_TABLES = {"lm-small": _rows(lm_small()), "lm-base": _rows(lm_base())}
