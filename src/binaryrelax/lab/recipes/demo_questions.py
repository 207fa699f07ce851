"""What the demo's network is asked beyond the demo: eight seeds cost minutes on a CPU there.

Nothing is chosen by the answers; docs/findings.md shows them beside those of CIFAR-10.
"""

from dataclasses import replace

from binaryrelax.lab.recipes.demo import demo_binary, demo_float, demo_ternary
from binaryrelax.lab.recipes.learning_rate import Steps
from binaryrelax.lab.recipes.methods import PAPER_METHODS, by_method
from binaryrelax.lab.recipes.recipe import Recipe
from binaryrelax.lab.recipes.search import EXACT, FROM_RANDOM_WEIGHTS, Change

# λ ends Phase I at 1, 11 and 1,010 instead of 150.
STRENGTHS: tuple[Change, ...] = ({"growth": "1"}, {"growth": "1.08"}, {"growth": "1.25"})


def demo_paper(method: str = "float") -> Recipe:
    """The demo's network with the schedule of the paper's CIFAR recipes in a tenth of the epochs.

    λ grows ten times an epoch, so about as often as there. Rounding makes it every eight steps of
    79 an epoch: 236 times instead of 239, and λ ends Phase I at 107 instead of 114.
    """
    start = replace(
        demo_float(),
        name="demo-paper-float",
        epochs=30,
        lr_schedule=Steps((12, 22)),
        momentum=0.95,
        phase_two_epoch=24,
    )
    return by_method(start, method, growth=1.02, growth_every_epochs=0.1)


def demo_paper_row() -> tuple[Recipe, ...]:
    """The five methods."""
    return tuple(map(demo_paper, PAPER_METHODS))


def from_random_weights(relaxed: Recipe) -> tuple[Recipe, Recipe]:
    """Without a trained float network: as many quantized epochs, and as many epochs in all."""
    changed = relaxed.with_settings(FROM_RANDOM_WEIGHTS)
    return changed, changed.with_epochs(demo_float().epochs + relaxed.epochs)


def demo_questions() -> tuple[Recipe, ...]:
    """Changes of the demo's BinaryRelax, after the float network that they start from."""
    recipes = [demo_float(), demo_ternary().with_settings(EXACT)]
    for relaxed in (demo_binary(), demo_ternary()):
        recipes += [relaxed.with_settings(change) for change in STRENGTHS]
        recipes += from_random_weights(relaxed)
    return tuple(recipes)
