"""Settings that cannot work, found before anything is trained."""

from collections.abc import Iterable

import torch

from binaryrelax import Binary, select_weights
from binaryrelax.lab.data import IMAGE_SHAPES, NUM_CLASSES
from binaryrelax.lab.engine.files import FINAL_NAME
from binaryrelax.lab.engine.job import Job
from binaryrelax.lab.engine.network import cannot_start
from binaryrelax.lab.models import build_network
from binaryrelax.lab.recipes import Recipe

MANY_STEPS = 1000  # of an epoch: the fewer they are, the more rounding slows the growth of λ


def refuse_impossible(jobs: Iterable[Job]) -> None:
    """A `ValueError` if one of the jobs could not be begun, whatever the images.

    A file that none of the jobs before writes is not looked at: its job comes first and reads it
    at once.
    """
    fitting, written = set(), {}
    for job in jobs:
        if job.recipe not in fitting:
            _refuse_unfit(job.recipe)
            fitting.add(job.recipe)
        start = written.get(job.initial)
        if start and _blueprint(start) != _blueprint(job.recipe):
            raise ValueError(cannot_start(job.recipe, f"{start.name} trains {start.network}"))
        written[job.folder / FINAL_NAME] = job.recipe


def _blueprint(recipe: Recipe) -> tuple[str, int, int]:
    """What a network is built of: its name, channels of an image, classes."""
    return recipe.network, IMAGE_SHAPES[recipe.dataset][0], NUM_CLASSES[recipe.dataset]


def _refuse_unfit(recipe: Recipe) -> None:
    """Builds all but the weights, which takes milliseconds."""
    recipe.schedule(MANY_STEPS)
    with torch.device("meta"):
        network = build_network(*_blueprint(recipe))
    quantizer = recipe.quantizer or Binary()
    weights = select_weights(network, quantizer, keep_float=recipe.keep_float)
    for weight, name in weights.names.items():
        try:
            quantizer.granularity.rows(weight)
        except ValueError as error:
            raise ValueError(f"{recipe.name}, {name}: {error}") from error
