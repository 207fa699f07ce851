"""What all networks on CIFAR share in the paper (section 3.2)."""

from dataclasses import replace

from binaryrelax.lab.recipes.learning_rate import Cosine, Steps
from binaryrelax.lab.recipes.methods import PAPER_METHODS, by_method
from binaryrelax.lab.recipes.recipe import METHOD_NAMES, PLUS, Recipe

VARIANTS = (*METHOD_NAMES, *(method + PLUS for method in METHOD_NAMES))


def cifar_recipe(
    dataset: str, network: str, variant: str, paper: tuple[float, float, float, float, float]
) -> Recipe:
    """A cell of Table 1 or 2, or our variation of it.

    A variant is a method, or a method with the suffix ``-plus``. The paper's learning rate ends at
    1e-3, where binary weights still flip and the last epochs swing by two points; ``-plus``
    anneals it to zero, step by step, with momentum 0.9, so that the last epoch is the best one.
    All else is as in the paper. ``ternary-exact`` is BinaryRelax with the exact projection instead
    of the threshold of TWN.

    Args:
        paper: the row of the table, in the order of `PAPER_METHODS`.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant={variant!r}: it must be one of {', '.join(VARIANTS)}")
    start = _float_recipe(dataset, network)
    if variant.endswith(PLUS):
        start = _annealed(start)
    method = variant.removesuffix(PLUS)
    figures = dict(zip(PAPER_METHODS, paper, strict=True))  # those of -plus are not in the paper
    recipe = by_method(start, method, growth=1.02, growth_every_epochs=1.0)
    return replace(recipe, paper_accuracy=figures.get(variant))


def _float_recipe(dataset: str, network: str) -> Recipe:
    """The float network; the quantized ones train again for as long, by the same numbers."""
    return Recipe(
        name=f"{dataset}-{network}-float",
        dataset=dataset,
        network=network,
        method="float",
        epochs=300,
        batch_size=128,
        lr=0.1,
        lr_schedule=Steps(milestones=(120, 220)),
        momentum=0.95,
        weight_decay=1e-4,
        phase_two_epoch=240,
        flip=True,
        crop_padding=4,
    )


def _annealed(recipe: Recipe) -> Recipe:
    return replace(recipe, name=recipe.name + PLUS, lr_schedule=Cosine(), momentum=0.9)
