"""CIFAR-10 and CIFAR-100: one function per row of the paper's Tables 1 and 2 (section 3.2).

The argument of such a function chooses the column: ``cifar10_resnet20("binary")`` is the recipe
``cifar10-resnet20-binary``. The numbers are the validation accuracies of the float network, BWN,
BinaryRelax binary, TWN, BinaryRelax ternary.
"""

from dataclasses import replace

from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.learning_rate import Cosine, Steps
from binaryrelax_lab.recipes.methods import PAPER_METHODS, by_method
from binaryrelax_lab.recipes.name import METHOD_NAMES, PLUS, RecipeName

VARIANTS = (*METHOD_NAMES, *(method + PLUS for method in METHOD_NAMES))


def cifar_recipe(
    dataset: str, network: str, variant: str, paper: tuple[float, float, float, float, float]
) -> ImageRecipe:
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


def _float_recipe(dataset: str, network: str) -> ImageRecipe:
    """The float network; the quantized ones train again for as long, by the same numbers."""
    return ImageRecipe(
        name=RecipeName(f"{dataset}-{network}-float"),
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


def _annealed(recipe: ImageRecipe) -> ImageRecipe:
    name = RecipeName(recipe.name + PLUS)
    return replace(recipe, name=name, lr_schedule=Cosine(), momentum=0.9)


def cifar10_vgg11(variant: str = "float") -> ImageRecipe:
    """VGG-11: BinaryRelax gains 0.58 points over BWN and 0.53 over TWN."""
    paper = (91.93, 88.70, 89.28, 90.48, 91.01)
    return cifar_recipe("cifar10", "vgg11", variant, paper)


def cifar10_vgg16(variant: str = "float") -> ImageRecipe:
    """VGG-16: BinaryRelax gains 0.38 points over BWN and 0.45 over TWN."""
    paper = (93.59, 91.60, 91.98, 92.75, 93.20)
    return cifar_recipe("cifar10", "vgg16", variant, paper)


def cifar10_resnet20(variant: str = "float") -> ImageRecipe:
    """ResNet-20: BinaryRelax gains 0.38 points over BWN and 1.42 over TWN."""
    paper = (92.68, 87.44, 87.82, 88.65, 90.07)
    return cifar_recipe("cifar10", "resnet20", variant, paper)


def cifar10_resnet32(variant: str = "float") -> ImageRecipe:
    """ResNet-32: BinaryRelax gains 1.16 points over BWN and 1.10 over TWN."""
    paper = (93.40, 89.49, 90.65, 90.94, 92.04)
    return cifar_recipe("cifar10", "resnet32", variant, paper)


def cifar10_resnet18(variant: str = "float") -> ImageRecipe:
    """ResNet-18: BinaryRelax gains 1.47 points over BWN and 1.43 over TWN."""
    paper = (95.49, 92.72, 94.19, 93.55, 94.98)
    return cifar_recipe("cifar10", "resnet18", variant, paper)


def cifar10_resnet34(variant: str = "float") -> ImageRecipe:
    """ResNet-34: BinaryRelax gains 1.41 points over BWN and 1.02 over TWN."""
    paper = (95.70, 93.25, 94.66, 94.05, 95.07)
    return cifar_recipe("cifar10", "resnet34", variant, paper)


CIFAR10_ROWS = (
    cifar10_vgg11,
    cifar10_vgg16,
    cifar10_resnet20,
    cifar10_resnet32,
    cifar10_resnet18,
    cifar10_resnet34,
)


def cifar100_vgg11(variant: str = "float") -> ImageRecipe:
    """VGG-11: BinaryRelax gains 1.47 points over BWN and 1.71 over TWN."""
    paper = (70.43, 62.35, 63.82, 64.16, 65.87)
    return cifar_recipe("cifar100", "vgg11", variant, paper)


def cifar100_vgg16(variant: str = "float") -> ImageRecipe:
    """VGG-16: BinaryRelax gains 1.11 points over BWN and 0.69 over TWN."""
    paper = (73.55, 69.03, 70.14, 71.41, 72.10)
    return cifar_recipe("cifar100", "vgg16", variant, paper)


def cifar100_resnet56(variant: str = "float") -> ImageRecipe:
    """ResNet-56: BinaryRelax gains 0.92 points over BWN and 1.57 over TWN."""
    paper = (70.86, 66.73, 67.65, 68.26, 69.83)
    return cifar_recipe("cifar100", "resnet56", variant, paper)


def cifar100_resnet110(variant: str = "float") -> ImageRecipe:
    """ResNet-110: BinaryRelax gains 1.18 points over BWN and 3.37 over TWN."""
    paper = (73.21, 68.67, 69.85, 68.95, 72.32)
    return cifar_recipe("cifar100", "resnet110", variant, paper)


def cifar100_resnet18(variant: str = "float") -> ImageRecipe:
    """ResNet-18: BinaryRelax gains 1.73 points over BWN and 2.09 over TWN."""
    paper = (76.32, 72.31, 74.04, 73.15, 75.24)
    return cifar_recipe("cifar100", "resnet18", variant, paper)


def cifar100_resnet34(variant: str = "float") -> ImageRecipe:
    """ResNet-34: BinaryRelax gains 2.70 points over BWN and 1.73 over TWN."""
    paper = (77.23, 72.92, 75.62, 74.43, 76.16)
    return cifar_recipe("cifar100", "resnet34", variant, paper)


CIFAR100_ROWS = (
    cifar100_vgg11,
    cifar100_vgg16,
    cifar100_resnet56,
    cifar100_resnet110,
    cifar100_resnet18,
    cifar100_resnet34,
)
