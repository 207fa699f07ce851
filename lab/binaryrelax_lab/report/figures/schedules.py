"""Which recipes the pages compare: networks by schedules, in words and by name."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from binaryrelax_lab.recipes import (
    NETWORK_NAMES,
    ImageRecipe,
    Recipe,
    RecipeName,
    cifar10_resnet20,
    demo_float,
)
from binaryrelax_lab.recipes.cifar import CIFAR10_ROWS, CIFAR100_ROWS
from binaryrelax_lab.recipes.demo import demo_paper
from binaryrelax_lab.recipes.name import NOTEBOOK, PLUS, TUNED
from binaryrelax_lab.recipes.search import MORE_DECAY, Change

BITS = {"1 bit": ("bwn", "binary"), "ternary": ("twn", "ternary")}  # BinaryConnect, BinaryRelax
RELAXED = [relaxed for _, relaxed in BITS.values()]
LESS_MOMENTUM = RecipeName().with_settings({"momentum": "0.9"})
# By the end of a recipe's name.
ANNEALED = "annealed (momentum 0.9)"  # two changes of the paper's, never run apart
SCHEDULES = {"": "the paper's schedule", PLUS: ANNEALED, TUNED: f"{ANNEALED}, tuned"}
ALL_SCHEDULES = SCHEDULES | {  # asked of VGG-11 alone
    LESS_MOMENTUM: "the paper's schedule, momentum 0.9",
    NOTEBOOK: "the notebook's schedule",
}
ROWS = tuple(dict.fromkeys((cifar10_resnet20, *CIFAR10_ROWS)))  # ResNet-20 has most runs
ALL_ROWS = (*ROWS, *CIFAR100_ROWS)
DEMO, DEMO_PAPER = demo_float().name, demo_paper().name
DEMO_SCHEDULES = {
    "the paper's schedule": (DEMO_PAPER,),
    ALL_SCHEDULES[LESS_MOMENTUM]: (RecipeName(DEMO_PAPER + LESS_MOMENTUM),),
    ANNEALED: (DEMO, DEMO.with_epochs(12)),
}
DECAYS: dict[str, Change] = {"1e-4": {}, "3e-4": MORE_DECAY}
TRAINING_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "fashion-mnist-12k": 10_000}


def networks_under(schedules: dict[str, str]) -> dict[str, RecipeName]:
    """Networks of CIFAR by schedules, in words; the names are those of the float networks.

    Not every network has been asked under each schedule: then there are no runs of the name.
    """
    return {
        f"{network_words(row())}, {words}": RecipeName(row().name + end)
        for row in ALL_ROWS
        for end, words in schedules.items()
    }


def network_words(recipe: Recipe) -> str:
    """The network, and the images if they are not those of CIFAR-10."""
    where = " on CIFAR-100" if recipe.dataset == "cifar100" else ""
    return f"{NETWORK_NAMES[recipe.network]}{where}"


def names_under(schedules: dict[str, str], methods: Sequence[str]) -> list[RecipeName]:
    """The names of these networks trained by these methods."""
    networks = networks_under(schedules).values()
    return [name.with_method(method) for name in networks for method in methods]


def bits_of(recipe: Recipe) -> str:
    """1 bit or ternary."""
    return next(bits for bits, pair in BITS.items() if recipe.method in pair)


def final_strength(recipe: Recipe) -> str:
    """λ at the end of Phase I."""
    if not recipe.is_relaxed:
        return "∞ (BinaryConnect)"
    held_out = recipe.held_out if isinstance(recipe, ImageRecipe) else 0
    steps = ceil((TRAINING_IMAGES[recipe.dataset] - held_out) / recipe.batch_size)
    return f"{recipe.schedule(steps)(recipe.phase_two_epoch * steps - 1):,.0f}"
