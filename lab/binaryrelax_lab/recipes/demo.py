"""The five networks of ``binaryrelax demo``: minutes on two CPU cores, on the embedded images.

What was chosen by looking at test accuracy, on seed 0: the network, among five of similar cost, and
flipping without shifting, both by the float network alone. Learning rates 0.1 and 0.03 did equally
well on a first look, and 0.1 stayed. The number of epochs was set by time alone: 15, then 12, then
10, so that one thread is done in about two minutes. Nothing else was tuned, and all five share
every other number. Which method comes out ahead changed with the number of epochs: with 10,000
images and so short a training, half a point is noise.

What the same network is asked beyond the demo follows them: eight seeds cost minutes on a CPU.
Nothing is chosen by the answers; docs/evidence shows them beside those of CIFAR-10.
"""

from dataclasses import replace

from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.learning_rate import Cosine, Steps
from binaryrelax_lab.recipes.methods import PAPER_METHODS, R, by_method
from binaryrelax_lab.recipes.name import RecipeName
from binaryrelax_lab.recipes.search import EXACT, FROM_RANDOM_WEIGHTS, Change

FINAL_STRENGTH = 150.0  # the paper ends Phase I with λ between 100 and 200
NUM_GROWTHS = 31  # four an epoch, over the 8 epochs of Phase I, but not before the first
# λ ends Phase I at 1, 11 and 1,010 instead of 150.
STRENGTHS: tuple[Change, ...] = ({"growth": "1"}, {"growth": "1.08"}, {"growth": "1.25"})


def demo_float() -> ImageRecipe:
    """The float network that the other four start from."""
    return ImageRecipe(
        name=RecipeName("demo-float"),
        dataset="fashion-mnist-12k",
        network="small-conv",
        method="float",
        epochs=10,
        batch_size=128,
        lr=0.1,
        lr_schedule=Cosine(),
        momentum=0.9,
        weight_decay=1e-4,
        phase_two_epoch=8,
        flip=True,
    )


def demo_bwn() -> ImageRecipe:
    """Binary weights by BinaryConnect: hard from the first step on."""
    return _demo("bwn")


def demo_binary() -> ImageRecipe:
    """Binary weights by BinaryRelax: λ from 1 to 150 in Phase I, then hard."""
    return _demo("binary")


def demo_twn() -> ImageRecipe:
    """Ternary weights by BinaryConnect with the threshold of ternary weight networks."""
    return _demo("twn")


def demo_ternary() -> ImageRecipe:
    """Ternary weights by BinaryRelax, with the same projection as its baseline."""
    return _demo("ternary")


def _demo(method: str) -> ImageRecipe:
    growth = FINAL_STRENGTH ** (1 / NUM_GROWTHS)
    return by_method(demo_float(), method, growth=growth, growth_every_epochs=0.25)


def demo_paper(method: str = "float") -> ImageRecipe:
    """The demo's network with the schedule of the paper's CIFAR recipes in a tenth of the epochs.

    λ grows ten times an epoch, so about as often as there. Rounding makes it every eight steps of
    79 an epoch: 236 times instead of 239, and λ ends Phase I at 107 instead of 114.
    """
    start = replace(
        demo_float(),
        name=RecipeName("demo-paper-float"),
        epochs=30,
        lr_schedule=Steps((12, 22)),
        momentum=0.95,
        phase_two_epoch=24,
    )
    return by_method(start, method, growth=1.02, growth_every_epochs=0.1)


def demo_paper_row() -> tuple[ImageRecipe, ...]:
    """The five methods."""
    return tuple(map(demo_paper, PAPER_METHODS))


def from_random_weights(relaxed: R) -> tuple[R, R]:
    """Without a trained float network: as many quantized epochs, and as many epochs in all."""
    changed = relaxed.with_settings(FROM_RANDOM_WEIGHTS)
    return changed, changed.with_epochs(demo_float().epochs + relaxed.epochs)


def demo_questions() -> tuple[ImageRecipe, ...]:
    """Changes of the demo's BinaryRelax, after the float network that they start from."""
    recipes = [demo_float(), demo_ternary().with_settings(EXACT)]
    for relaxed in (demo_binary(), demo_ternary()):
        recipes += [relaxed.with_settings(change) for change in STRENGTHS]
        recipes += from_random_weights(relaxed)
    return tuple(recipes)
