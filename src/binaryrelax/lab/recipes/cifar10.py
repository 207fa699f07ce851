"""CIFAR-10: one function per row of the paper's Table 1; its argument chooses the column.

``cifar10_resnet20("binary")`` is the recipe ``cifar10-resnet20-binary``. The numbers are
the validation accuracies of the float network, BWN, BinaryRelax binary, TWN, BinaryRelax ternary.
"""

from binaryrelax.lab.recipes.cifar import cifar_recipe
from binaryrelax.lab.recipes.recipe import Recipe


def cifar10_vgg11(variant: str = "float") -> Recipe:
    """VGG-11: BinaryRelax gains 0.58 points over BWN and 0.53 over TWN."""
    paper = (91.93, 88.70, 89.28, 90.48, 91.01)
    return cifar_recipe("cifar10", "vgg11", variant, paper)


def cifar10_vgg16(variant: str = "float") -> Recipe:
    """VGG-16: BinaryRelax gains 0.38 points over BWN and 0.45 over TWN."""
    paper = (93.59, 91.60, 91.98, 92.75, 93.20)
    return cifar_recipe("cifar10", "vgg16", variant, paper)


def cifar10_resnet20(variant: str = "float") -> Recipe:
    """ResNet-20: BinaryRelax gains 0.38 points over BWN and 1.42 over TWN."""
    paper = (92.68, 87.44, 87.82, 88.65, 90.07)
    return cifar_recipe("cifar10", "resnet20", variant, paper)


def cifar10_resnet32(variant: str = "float") -> Recipe:
    """ResNet-32: BinaryRelax gains 1.16 points over BWN and 1.10 over TWN."""
    paper = (93.40, 89.49, 90.65, 90.94, 92.04)
    return cifar_recipe("cifar10", "resnet32", variant, paper)


def cifar10_resnet18(variant: str = "float") -> Recipe:
    """ResNet-18: BinaryRelax gains 1.47 points over BWN and 1.43 over TWN."""
    paper = (95.49, 92.72, 94.19, 93.55, 94.98)
    return cifar_recipe("cifar10", "resnet18", variant, paper)


def cifar10_resnet34(variant: str = "float") -> Recipe:
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
