"""CIFAR-100: one function per row of the paper's Table 2; its argument chooses the column.

``cifar100_resnet56("binary")`` is the recipe ``cifar100-resnet56-binary``. The numbers are
the validation accuracies of the float network, BWN, BinaryRelax binary, TWN, BinaryRelax ternary.
"""

from binaryrelax.lab.recipes.cifar import cifar_recipe
from binaryrelax.lab.recipes.recipe import Recipe


def cifar100_vgg11(variant: str = "float") -> Recipe:
    """VGG-11: BinaryRelax gains 1.47 points over BWN and 1.71 over TWN."""
    paper = (70.43, 62.35, 63.82, 64.16, 65.87)
    return cifar_recipe("cifar100", "vgg11", variant, paper)


def cifar100_vgg16(variant: str = "float") -> Recipe:
    """VGG-16: BinaryRelax gains 1.11 points over BWN and 0.69 over TWN."""
    paper = (73.55, 69.03, 70.14, 71.41, 72.10)
    return cifar_recipe("cifar100", "vgg16", variant, paper)


def cifar100_resnet56(variant: str = "float") -> Recipe:
    """ResNet-56: BinaryRelax gains 0.92 points over BWN and 1.57 over TWN."""
    paper = (70.86, 66.73, 67.65, 68.26, 69.83)
    return cifar_recipe("cifar100", "resnet56", variant, paper)


def cifar100_resnet110(variant: str = "float") -> Recipe:
    """ResNet-110: BinaryRelax gains 1.18 points over BWN and 3.37 over TWN."""
    paper = (73.21, 68.67, 69.85, 68.95, 72.32)
    return cifar_recipe("cifar100", "resnet110", variant, paper)


def cifar100_resnet18(variant: str = "float") -> Recipe:
    """ResNet-18: BinaryRelax gains 1.73 points over BWN and 2.09 over TWN."""
    paper = (76.32, 72.31, 74.04, 73.15, 75.24)
    return cifar_recipe("cifar100", "resnet18", variant, paper)


def cifar100_resnet34(variant: str = "float") -> Recipe:
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
