"""Settings that cannot work, found before anything is trained."""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from binaryrelax import Binary, SelectedWeights, select_weights
from binaryrelax_lab.data import IMAGE_SHAPES, NUM_CLASSES, ImageSource
from binaryrelax_lab.engine.image_task import task_for
from binaryrelax_lab.engine.job import Job
from binaryrelax_lab.engine.network import (
    UnfitStart,
    cannot_start,
    load_network,
    new_network,
    take_over,
)
from binaryrelax_lab.engine.task import Material
from binaryrelax_lab.files import FINAL_NAME
from binaryrelax_lab.models import build_network
from binaryrelax_lab.recipes import ALL_RECIPES, LanguageRecipe, Recipe

MANY_STEPS = 1000  # of an epoch: the fewer they are, the more rounding slows the growth of λ


def refuse_impossible(jobs: Iterable[Job]) -> None:
    """A `ValueError` if one of the jobs could not be begun, whatever the images and files."""
    fitting: set[Recipe] = set()
    written: dict[Path, Recipe] = {}
    for job in jobs:
        if job.recipe not in fitting:
            _refuse_unfit(job.recipe)
            fitting.add(job.recipe)
        start = written.get(job.initial) if job.initial else None
        if start and _blueprint(start) != _blueprint(job.recipe):
            raise UnfitStart(cannot_start(job.recipe, f"{start.name} trains {_described(start)}"))
        written[job.folder / FINAL_NAME] = job.recipe
    proven = {(recipe.network, recipe.dataset) for recipe in ALL_RECIPES}  # to try takes a second
    for recipe in fitting:
        is_of_images = not isinstance(recipe, LanguageRecipe)
        if is_of_images and (recipe.network, recipe.dataset) not in proven:
            _refuse_small_images(recipe)


def refuse_bad_start(jobs: Iterable[Job], data: ImageSource | Material) -> None:
    """A `ValueError` if one of the jobs could not be begun with these data and files.

    A file that one of the jobs before writes is not looked at.
    """
    written = set()
    for job in jobs:
        task = task_for(job.recipe, data)
        if isinstance(job.recipe, LanguageRecipe):
            _refuse_unfit_layers(job.recipe, task.select(new_network(task, job.seed)))
        if job.initial and job.initial not in written:
            tensors = load_network(job.initial, job.recipe)
            take_over(new_network(task, job.seed), tensors, job.recipe)
        written.add(job.folder / FINAL_NAME)


def _blueprint(recipe: Recipe) -> tuple[str, int, int]:
    """What a network is built of: its name, channels of an image and classes, or tokens."""
    if isinstance(recipe, LanguageRecipe):
        return recipe.network, recipe.context, recipe.vocabulary
    return recipe.network, IMAGE_SHAPES[recipe.dataset][0], NUM_CLASSES[recipe.dataset]


def _described(recipe: Recipe) -> str:
    if isinstance(recipe, LanguageRecipe):
        return f"{recipe.network} with context={recipe.context}, vocabulary={recipe.vocabulary}"
    return recipe.network


def _without_weights(recipe: Recipe) -> nn.Module:
    """All of its network but the numbers, which takes milliseconds."""
    with torch.device("meta"):
        return build_network(*_blueprint(recipe))


def _refuse_unfit(recipe: Recipe) -> None:
    if isinstance(recipe, LanguageRecipe):  # its network comes with a library of its own
        if not recipe.is_parq:
            recipe.schedule(MANY_STEPS)
        return
    recipe.schedule(MANY_STEPS)
    network = _without_weights(recipe)
    quantizer = recipe.quantizer or Binary()
    _refuse_unfit_layers(recipe, select_weights(network, quantizer, keep_float=recipe.keep_float))


def _refuse_unfit_layers(recipe: Recipe, weights: SelectedWeights) -> None:
    for weight, name in weights.names.items():
        try:
            weights[weight].granularity.rows(weight)
        except ValueError as error:
            raise ValueError(f"{recipe.name}, {name}: {error}") from error


def _refuse_small_images(recipe: Recipe) -> None:
    """A network with many poolings leaves nothing of small images."""
    shape = IMAGE_SHAPES[recipe.dataset]
    try:
        _without_weights(recipe).eval()(torch.empty(1, *shape, device="meta"))
    except RuntimeError as error:
        raise ValueError(
            f"{recipe.name}: {recipe.network} cannot take images of {shape[1]} x {shape[2]} pixels "
            f"({error}); choose another network"
        ) from error
