"""What the notebook of the paper's authors has for VGG-11 on CIFAR-10, where the paper has another.

Asked because with the paper's numbers all quantized networks of VGG-11 come out below its Table 1
(docs/evidence/momentum.md): first the momentum alone, 0.9 instead of 0.95, then the rest of its
schedule. Not taken over: biases in convolutions, the initialisation and the scaling of images.
Momentum alone is asked of the demo's network too: eight seeds cost minutes there.
"""

from collections.abc import Iterable
from dataclasses import replace

from binaryrelax_lab.recipes.cifar import cifar10_vgg11
from binaryrelax_lab.recipes.demo import demo_paper_row
from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.learning_rate import Steps
from binaryrelax_lab.recipes.methods import PAPER_METHODS, by_method
from binaryrelax_lab.recipes.name import NOTEBOOK, RecipeName

MOMENTUM, GROWTH = 0.9, 1.04


def vgg11_momentum() -> tuple[ImageRecipe, ...]:
    """The row of Table 1 with its momentum."""
    return _with_momentum(map(cifar10_vgg11, PAPER_METHODS))


def demo_momentum() -> tuple[ImageRecipe, ...]:
    """The demo's network under the paper's schedule with it."""
    return _with_momentum(demo_paper_row())


def _with_momentum(row: Iterable[ImageRecipe]) -> tuple[ImageRecipe, ...]:
    """The quantized ones; all start from the float network of the paper's momentum."""
    start, *quantized = row
    setting = {"momentum": str(MOMENTUM)}
    return start, *(recipe.with_settings(setting) for recipe in quantized)


def vgg11_notebook(method: str = "float") -> ImageRecipe:
    """A cell of the row with its schedule, called ``cifar10-vgg11-METHOD-notebook``.

    Its λ grows before the first epoch, too. Not taken over: its convolutions have biases, and all
    layers PyTorch's default initialisation; it starts from the float network's best epoch, which
    the test images have chosen; it measures with the weights of the last forward pass, one step
    older. It has no bwn, twn or ternary; by the same numbers they are our addition.
    """
    paper = cifar10_vgg11()
    start = replace(
        paper,
        name=RecipeName(paper.name + NOTEBOOK),
        epochs=200,
        lr_schedule=Steps(milestones=(80, 140)),
        momentum=MOMENTUM,
        phase_two_epoch=150,
        paper_accuracy=None,
    )
    recipe = by_method(start, method, growth=GROWTH, growth_every_epochs=1.0)
    return replace(recipe, initial_strength=GROWTH) if recipe.is_relaxed else recipe


def vgg11_notebook_row() -> tuple[ImageRecipe, ...]:
    """The five methods."""
    return tuple(map(vgg11_notebook, PAPER_METHODS))
