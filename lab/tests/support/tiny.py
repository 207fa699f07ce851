"""Images and recipes small enough to train a network in a blink."""

from dataclasses import replace

from binaryrelax_lab.data import ImageSet, load_fashion_mnist
from binaryrelax_lab.recipes import (
    Recipe,
    demo_binary,
    demo_bwn,
    demo_float,
    demo_ternary,
    demo_twn,
)

METHODS = {
    "float": demo_float,
    "bwn": demo_bwn,
    "binary": demo_binary,
    "twn": demo_twn,
    "ternary": demo_ternary,
}


def tiny_data(num_images: int = 32) -> ImageSet:
    """The first images of the embedded set, both to train on and to test with."""
    data = load_fashion_mnist()
    images, labels = data.train_images[:num_images], data.train_labels[:num_images]
    return replace(
        data, train_images=images, train_labels=labels, test_images=images, test_labels=labels
    )


def tiny_recipe(method: str, epochs: int = 4) -> Recipe:
    """A recipe of the demo, made for a few images and steps."""
    recipe = METHODS[method]()
    growing = recipe.growth is not None
    return replace(
        recipe,
        name=f"tiny-{method}",
        batch_size=16,
        epochs=epochs,
        phase_two_epoch=epochs * 3 // 4,
        growth=4.0 if growing else None,
        growth_every_epochs=0.5 if growing else None,
        starts_from="tiny-float" if recipe.starts_from else None,
    )
